//! The destination of one stream of one worker.

use super::super::worker::LocalRank;
use super::LogOptions;

/// One of the two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    pub(super) fn file_name(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout.log",
            LogStream::Stderr => "stderr.log",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// The launcher's own stream, written to by the worker itself.
    Launcher,
    Nowhere,
    File,
    /// The launcher's stream, line by line with a prefix.
    Console,
    FileAndConsole,
}

impl Destination {
    /// A tee'd stream goes to a file and the console, a redirected one to a file. A worker that is filtered out writes
    /// nothing to the console. Where the log folder is `/dev/null` (`writes_files` is false), a redirected stream stays the
    /// launcher's, as with torchrun: better seen than lost.
    pub(super) fn choose(options: &LogOptions, stream: LogStream, worker: LocalRank, writes_files: bool) -> Self {
        let shown = options.shown.as_ref().is_none_or(|shown| shown.contains(&worker));
        let tee = options.tee.of(worker).has(stream);
        let to_file = writes_files && (tee || options.redirects.of(worker).has(stream));
        match (to_file, tee, shown) {
            (true, true, true) => Destination::FileAndConsole,
            (true, _, _) => Destination::File,
            (false, true, true) => Destination::Console,
            (false, false, true) => Destination::Launcher,
            (false, _, false) => Destination::Nowhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::{StreamChoice, Streams};
    use super::*;

    const OUT: Streams = Streams { stdout: true, stderr: false };
    const BOTH: Streams = Streams { stdout: true, stderr: true };

    fn choose(options: &LogOptions, worker: u32) -> [Destination; 2] {
        [LogStream::Stdout, LogStream::Stderr]
            .map(|stream| Destination::choose(options, stream, LocalRank(worker), true))
    }

    #[test]
    fn without_options_a_stream_is_the_launchers() {
        assert_eq!(choose(&LogOptions::default(), 0), [Destination::Launcher; 2]);
    }

    #[test]
    fn tee_is_redirect_with_a_console() {
        let tee = StreamChoice::ByLocalRank([(LocalRank(0), OUT)].into());
        let options = LogOptions { redirects: StreamChoice::All(BOTH), tee, ..LogOptions::default() };
        assert_eq!(choose(&options, 0), [Destination::FileAndConsole, Destination::File]);
        assert_eq!(choose(&options, 1), [Destination::File; 2]);
    }

    #[test]
    fn a_worker_that_is_not_shown_writes_only_to_its_files() {
        let shown = Some([LocalRank(1)].into());
        let options = LogOptions { tee: StreamChoice::All(OUT), shown, ..LogOptions::default() };
        assert_eq!(choose(&options, 0), [Destination::File, Destination::Nowhere]);
        assert_eq!(choose(&options, 1), [Destination::FileAndConsole, Destination::Launcher]);
    }

    #[test]
    fn without_a_folder_nothing_is_lost() {
        let options =
            LogOptions { redirects: StreamChoice::All(BOTH), tee: StreamChoice::All(OUT), ..LogOptions::default() };
        let chosen = [LogStream::Stdout, LogStream::Stderr]
            .map(|stream| Destination::choose(&options, stream, LocalRank(0), false));
        assert_eq!(chosen, [Destination::Console, Destination::Launcher]);
    }
}
