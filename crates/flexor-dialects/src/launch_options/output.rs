//! Where what the processes print goes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{
    given::{Given, Wrong},
    python_number, table,
};
use crate::finding::quoted;

/// Where what the processes print goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// The folder for files; a new one where there is none.
    pub log_dir: Option<PathBuf>,
    /// What goes to files only.
    pub redirects: StreamChoice,
    /// What goes to files and to the console.
    pub tee: StreamChoice,
    /// What stands before each line on the console; `[${role_name}${local_rank}]:` where there is none.
    pub prefix: Option<String>,
    /// The local ranks that are seen on the console; all where there is none.
    pub console_ranks: Option<BTreeSet<u32>>,
}

/// Standard output, standard error, both or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// Streams of every process, or of each by its local rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamChoice {
    /// The same of every process.
    All(Streams),
    /// Of these local ranks these, of others none.
    ByLocalRank(BTreeMap<u32, Streams>),
}

impl StreamChoice {
    /// The streams of one process.
    pub fn of(&self, local_rank: u32) -> Streams {
        match self {
            StreamChoice::All(streams) => *streams,
            StreamChoice::ByLocalRank(ranks) => ranks.get(&local_rank).copied().unwrap_or_default(),
        }
    }

    fn read(text: &str) -> Result<Self, Wrong> {
        let wrong = || {
            let help = "write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such by local rank: 0:1,1:3";
            Wrong::new(format!("{} names no streams", quoted(text)), help)
        };
        if let Some(streams) = streams(text) {
            return Ok(StreamChoice::All(streams));
        }
        let pair = |pair: &str| {
            let (rank, which) = pair.split_once(':')?;
            let plain = rank.bytes().all(|byte| byte.is_ascii_digit());
            Some((rank.parse().ok().filter(|_| plain)?, streams(which)?))
        };
        text.split(',').map(pair).collect::<Option<_>>().map(StreamChoice::ByLocalRank).ok_or_else(wrong)
    }
}

fn streams(text: &str) -> Option<Streams> {
    let (stdout, stderr) = match text {
        "0" => (false, false),
        "1" => (true, false),
        "2" => (false, true),
        "3" => (true, true),
        _ => return None,
    };
    Some(Streams { stdout, stderr })
}

impl OutputOptions {
    /// What was given about it; none where something is wrong.
    pub(super) fn read(given: &mut Given<'_>) -> Option<Self> {
        let log_dir = Some(given.value(&table::LOG_DIR).text).filter(|text| !text.is_empty()).map(PathBuf::from);
        let prefix = given.value(&table::LOG_LINE_PREFIX_TEMPLATE).text;
        let inherited = given.variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").map(str::to_owned);
        let prefix = Some(prefix).filter(|text| !text.is_empty()).or(inherited);
        let redirects = given.read(&table::REDIRECTS, StreamChoice::read);
        let tee = given.read(&table::TEE, StreamChoice::read);
        let console_ranks = given.read_some(&table::LOCAL_RANKS_FILTER, local_ranks);
        Some(Self { log_dir, redirects: redirects?, tee: tee?, prefix, console_ranks: console_ranks? })
    }
}

fn local_ranks(text: &str) -> Result<BTreeSet<u32>, Wrong> {
    let rank = |rank: &str| python_number::integer(rank).and_then(|number| u32::try_from(number).ok());
    let wrong = || Wrong::new(format!("{} is no list of local ranks", quoted(text)), "write such as 0,1,2");
    text.split(',').map(rank).collect::<Option<_>>().ok_or_else(wrong)
}
