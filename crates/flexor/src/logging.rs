//! The log of servers: one line an event, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts it, as `FLEXOR_LOG` wants it.
pub fn start() {
    start_with("info");
}

/// Starts it for a launcher: what it does is told, of its own master only what has become of the data, of its stores what is wrong.
pub fn start_for_launch() {
    start_with("warn,flexor_agent=info,flexor_master::master=info");
}

fn start_with(default: &str) {
    let wanted = std::env::var(flexor_model::env::LOG.name).ok().filter(|wanted| !wanted.is_empty());
    let filter = EnvFilter::builder().parse_lossy(wanted.as_deref().unwrap_or(default));
    // A second start, as tests do it, keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
