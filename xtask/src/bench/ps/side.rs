//! The sides of the race.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use super::case::Case;
use super::cores::{self, ServerCores};
use super::measure::Lanes;
use super::wire_load::WireLoad;
use super::{go_server, native, our_server, paddle, redis};
use crate::compile;
use crate::tree::project_root;

/// A side of the race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// `flexor ps --elasticdl`.
    Ours,
    /// `flexor ps` and its client.
    Native,
    /// ElasticDL's own.
    GoServer,
    Redis,
    Paddle,
}

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Ask for rows that are not there.
    FirstTouch,
    /// Make the rows of the other phases.
    Fill,
    Pull,
    Push,
    /// Push each row once.
    PushAll,
}

/// The programs of all sides.
pub(super) struct Programs {
    pub(super) flexor: PathBuf,
    pub(super) go_server: PathBuf,
    pub(super) redis: redis::Installed,
    pub(super) paddle: paddle::Installed,
    pub(super) cores: ServerCores,
}

impl Programs {
    pub(super) fn ensure() -> Result<Self> {
        Ok(Self {
            flexor: compile::flexor(&project_root()?, "release")?,
            go_server: go_server::ensure()?,
            redis: redis::ensure()?,
            paddle: paddle::Installed::ensure()?,
            // Last, because builds use all cores.
            cores: cores::divide()?,
        })
    }
}

/// A server that runs, and its clients.
pub(super) enum Store {
    /// Ours or ElasticDL's: they get the same requests.
    Wire(WireLoad),
    Native(native::Native),
    Redis(redis::Redis),
    Paddle(paddle::Paddle),
}

impl Side {
    pub(super) const ALL: [Self; 5] = [Self::Ours, Self::Native, Self::GoServer, Self::Redis, Self::Paddle];

    pub(super) async fn start(self, programs: &Programs, case: &Case) -> Result<Store> {
        Ok(match self {
            Self::Ours => Store::Wire(WireLoad::new(our_server::start(programs, case)?, case).await?),
            Self::GoServer => Store::Wire(WireLoad::new(go_server::start(programs, case)?, case).await?),
            Self::Native => Store::Native(native::Native::start(programs, case).await?),
            Self::Redis => Store::Redis(redis::Redis::start(programs, case).await?),
            Self::Paddle => Store::Paddle(paddle::Paddle::start(programs, case).await?),
        })
    }
}

impl Store {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Wire(store) => store.pid(),
            Self::Native(store) => store.pid(),
            Self::Redis(store) => store.pid(),
            Self::Paddle(store) => store.pid(),
        }
    }

    pub(super) async fn lanes(&self, phase: Phase) -> Result<Lanes> {
        match self {
            Self::Wire(store) => store.lanes(phase).await,
            Self::Native(store) => store.lanes(phase).await,
            Self::Redis(store) => store.lanes(phase).await,
            Self::Paddle(store) => store.lanes(phase).await,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "flexor",
            Self::Native => "flexor's own API",
            Self::GoServer => go_server::NAME,
            Self::Redis => redis::NAME,
            Self::Paddle => paddle::NAME,
        })
    }
}
