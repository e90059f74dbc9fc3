//! Logging to standard error, one line per event. `FLEXOR_LOG` sets the levels.

mod queue;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use self::queue::LogQueue;
use crate::output;

/// How long to wait for queued lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The queue of a launcher's log.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Starts logging for servers, by default from level info.
pub fn start() {
    start_with("info", BoxMakeWriter::new(io::stderr));
}

/// Starts logging for an operator: the library beneath it repeats what the operator says itself.
pub fn start_for_operator() {
    start_with("info,kube_runtime=error,kube_client=off", BoxMakeWriter::new(io::stderr));
}

/// Starts logging for a launcher: its own actions, and of its own master only job-level messages. Store and run
/// status log only errors, because the launcher itself reports lost masters and nodes. Logging never waits for a reader; [`flush`] does.
pub fn start_for_launch() {
    let writer = match LogQueue::to(io::stderr()) {
        Ok(queue) => BoxMakeWriter::new(QUEUE.get_or_init(|| queue).clone()),
        Err(_) => BoxMakeWriter::new(io::stderr),
    };
    start_with(
        "warn,flexor_agent=info,flexor_master::master=info,flexor_master::run_status=error,flexor_store=error",
        writer,
    );
}

/// Waits briefly until the log of a launcher is written, so that later output comes after it.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIMEOUT);
    }
}

/// Starts logging for a cluster, by default from level warn. Events of jobs and pods are printed in other ways.
pub fn start_for_run() {
    start_above(BoxMakeWriter::new(io::stderr));
}

/// Starts logging for a cluster with a live view, whose writer writes above the picture.
pub fn start_above(writer: BoxMakeWriter) {
    start_with("warn", writer);
}

fn start_with(default: &str, writer: BoxMakeWriter) {
    let variable = flexor_model::env::LOG.name;
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
    let parsed = value.as_deref().map(filter);
    if let (Some(value), Some(None)) = (&value, &parsed) {
        output::note(&format!(
            "warning: {variable} is {value:?}, which is not valid; write a level (error, warn, info, debug, trace, \
             off), or one for each part, such as info,flexor_store=debug"
        ));
    }
    let filter = parsed.flatten().unwrap_or_else(|| EnvFilter::builder().parse_lossy(default));
    // A second start, as in tests, has no effect.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
}

/// Parses a filter in which every part has a level. Returns `None` otherwise: `EnvFilter` would take a misspelt level for
/// a target and log nothing.
fn filter(value: &str) -> Option<EnvFilter> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
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
    fn every_part_of_a_filter_has_a_level() {
        for fine in ["debug", "off", "info,flexor_store=debug", "warn, flexor_agent=trace"] {
            assert!(filter(fine).is_some(), "{fine}");
        }
        for odd in ["loud", "info,flexor_store", "flexor_store=loud", "info,,"] {
            assert!(filter(odd).is_none(), "{odd}");
        }
    }
}
