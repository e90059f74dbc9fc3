//! Which streams of which workers: the values of `--redirects` and `--tee`.
//!
//! One digit for all workers (`0` none, `1` stdout, `2` stderr, `3` both) or one per local rank (`0:1,1:3`); workers
//! that are not named have none.

use std::collections::BTreeMap;
use std::str::FromStr;

use thiserror::Error;

use super::super::worker::LocalRank;
use super::destination::Stream;

/// Some of the two streams of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streams {
    /// Standard output is among them.
    pub stdout: bool,
    /// Standard error is among them.
    pub stderr: bool,
}

impl Streams {
    fn of_digit(digit: &str) -> Option<Self> {
        let (stdout, stderr) = match digit {
            "0" => (false, false),
            "1" => (true, false),
            "2" => (false, true),
            "3" => (true, true),
            _ => return None,
        };
        Some(Self { stdout, stderr })
    }

    pub(super) fn has(self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }
}

/// Streams for each worker.
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
    /// The streams of one worker.
    pub fn of(&self, local_rank: LocalRank) -> Streams {
        match self {
            Self::All(streams) => *streams,
            Self::ByLocalRank(streams) => streams.get(&local_rank).copied().unwrap_or_default(),
        }
    }

    /// Whether no worker has any.
    pub fn is_none(&self) -> bool {
        match self {
            Self::All(streams) => *streams == Streams::default(),
            Self::ByLocalRank(streams) => streams.values().all(|streams| *streams == Streams::default()),
        }
    }
}

/// A text that chooses no streams.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' chooses no streams; write 0 (none), 1 (stdout), 2 (stderr) or 3 (both) for all workers, or LOCAL_RANK:DIGIT \
     for some, as in 0:1,1:3"
)]
pub struct StreamChoiceError(pub String);

impl FromStr for StreamChoice {
    type Err = StreamChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(streams) = Streams::of_digit(text) {
            return Ok(Self::All(streams));
        }
        let of_worker = |entry: &str| {
            let (rank, digit) = entry.split_once(':')?;
            let number = rank.bytes().all(|byte| byte.is_ascii_digit()).then(|| rank.parse().ok()).flatten()?;
            Some((LocalRank(number), Streams::of_digit(digit)?))
        };
        let by_rank: Option<BTreeMap<_, _>> = text.split(',').map(of_worker).collect();
        by_rank.map(Self::ByLocalRank).ok_or_else(|| StreamChoiceError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Streams = Streams { stdout: false, stderr: false };
    const OUT: Streams = Streams { stdout: true, stderr: false };
    const ERR: Streams = Streams { stdout: false, stderr: true };
    const BOTH: Streams = Streams { stdout: true, stderr: true };

    #[test]
    fn one_digit_is_for_all_workers() {
        for (text, streams) in [("0", NONE), ("1", OUT), ("2", ERR), ("3", BOTH)] {
            let choice: StreamChoice = text.parse().unwrap();
            assert_eq!((choice.of(LocalRank(0)), choice.of(LocalRank(99))), (streams, streams));
            assert_eq!(choice.is_none(), text == "0");
        }
    }

    #[test]
    fn a_list_is_for_the_workers_it_names() {
        let choice: StreamChoice = "0:1,2:2,11:3".parse().unwrap();
        let chosen = [0, 1, 2, 11].map(|rank| choice.of(LocalRank(rank)));
        assert_eq!(chosen, [OUT, NONE, ERR, BOTH]);
        assert!("0:0".parse::<StreamChoice>().unwrap().is_none());
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in ["", "4", "13", "0:4", "0:", ":1", "0:1,", "a:1", "+0:1", "-1:1", "0:1;1:1", "0-1", " 1"] {
            let error = text.parse::<StreamChoice>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' chooses no streams; write 0 (none)")), "{error}");
        }
    }
}
