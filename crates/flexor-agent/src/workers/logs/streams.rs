//! A choice of streams for each worker, as `--redirects` and `--tee` make it.

use std::collections::BTreeMap;

use super::super::worker::LocalRank;
use super::destination::LogStream;

/// Some of the two streams of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streams {
    pub stdout: bool,
    pub stderr: bool,
}

impl Streams {
    pub(super) fn has(self, stream: LogStream) -> bool {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamChoice {
    /// The same for all workers.
    All(Streams),
    /// For these workers; none for the others.
    ByLocalRank(BTreeMap<LocalRank, Streams>),
}

impl Default for StreamChoice {
    fn default() -> Self {
        Self::All(Streams::default())
    }
}

impl StreamChoice {
    pub fn of(&self, local_rank: LocalRank) -> Streams {
        match self {
            Self::All(streams) => *streams,
            Self::ByLocalRank(streams) => streams.get(&local_rank).copied().unwrap_or_default(),
        }
    }

    /// Whether no worker has any stream.
    pub fn is_none(&self) -> bool {
        match self {
            Self::All(streams) => *streams == Streams::default(),
            Self::ByLocalRank(streams) => streams.values().all(|streams| *streams == Streams::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Streams = Streams { stdout: false, stderr: false };
    const OUT: Streams = Streams { stdout: true, stderr: false };

    #[test]
    fn a_list_is_for_the_workers_it_names() {
        let choice = StreamChoice::ByLocalRank([(LocalRank(2), OUT)].into());
        assert_eq!([0, 2].map(|rank| choice.of(LocalRank(rank))), [NONE, OUT]);
        assert!(!choice.is_none());
        assert!(StreamChoice::ByLocalRank([(LocalRank(0), NONE)].into()).is_none());
    }
}
