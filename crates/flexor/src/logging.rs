//! The log of servers: one line an event, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts it, as `FLEXOR_LOG` wants it.
pub fn start() {
    let wanted = std::env::var(flexor_model::env::LOG.name).unwrap_or_default();
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).parse_lossy(wanted);
    // A second start, as tests do it, keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
