//! The log of servers: one line an event, to standard error.

mod queue;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use self::queue::Queue;
use crate::output;

/// How long the last lines may take where somebody reads.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);

/// The lines of a launcher that are under way.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts it, as `FLEXOR_LOG` wants it.
pub fn start() {
    start_with("info", BoxMakeWriter::new(io::stderr));
}

/// Starts it for a launcher: what it does is told, of its own master only what has become of the data. Stores lose
/// masters and nodes when launchers do, which say so. It never waits for a reader: [`flush`] does.
pub fn start_for_launch() {
    let writer = match Queue::to(io::stderr()) {
        Ok(queue) => BoxMakeWriter::new(QUEUE.get_or_init(|| queue).clone()),
        Err(_) => BoxMakeWriter::new(io::stderr),
    };
    start_with("warn,flexor_agent=info,flexor_master::master=info,flexor_store=error", writer);
}

/// Waits for a moment until what a launcher has logged is written: what is printed next comes after it.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(LAST_WORDS_WITHIN);
    }
}

/// Starts it for a cluster: what happens to jobs and pods is told otherwise, so only what is wrong.
pub fn start_for_run() {
    start_above(BoxMakeWriter::new(io::stderr));
}

/// Starts it for a cluster that is looked at on a terminal, which knows how to write beside its picture.
pub fn start_above(writer: BoxMakeWriter) {
    start_with("warn", writer);
}

fn start_with(default: &str, writer: BoxMakeWriter) {
    let variable = flexor_model::env::LOG.name;
    let wanted = std::env::var(variable).ok().filter(|wanted| !wanted.is_empty());
    let read = wanted.as_deref().map(filter);
    if let (Some(wanted), Some(None)) = (&wanted, &read) {
        output::note(&format!(
            "warning: {variable} is {wanted:?}, which cannot be read; write a level (error, warn, info, debug, trace, \
             off), or one for each part, such as info,flexor_store=debug"
        ));
    }
    let filter = read.flatten().unwrap_or_else(|| EnvFilter::builder().parse_lossy(default));
    // A second start, as tests do it, keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
}

/// What is wanted; nothing where that is not levels. A word that is none would be taken for a part of the program, of
/// which nobody has heard, and everything else would be silent.
fn filter(wanted: &str) -> Option<EnvFilter> {
    let parts: Vec<&str> = wanted.split(',').map(str::trim).collect();
    let is_level = |part: &&str| {
        let level = part.rsplit('=').next().unwrap_or_default();
        !level.is_empty() && level.parse::<LevelFilter>().is_ok()
    };
    parts.iter().all(is_level).then(|| EnvFilter::builder().parse(parts.join(",")).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_levels_are_read() {
        for fine in ["debug", "off", "info,flexor_store=debug", "warn, flexor_agent=trace"] {
            assert!(filter(fine).is_some(), "{fine}");
        }
        for odd in ["loud", "info,flexor_store", "flexor_store=loud", "info,,"] {
            assert!(filter(odd).is_none(), "{odd}");
        }
    }
}
