//! What a master is started with.

use std::path::PathBuf;
use std::str::FromStr;

use flexor_engine::ps_membership;
use flexor_engine::rendezvous::{Settings, SettingsError};
use flexor_model::{JobName, JobUid};
use flexor_wire::Token;
use thiserror::Error;

pub use crate::servers::Checkpoints;

/// Everything a master needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The job it serves; also the run that the native API means.
    pub job: JobName,
    /// Tells this job from others of the same name. The journal belongs to it.
    pub uid: JobUid,
    /// Who may be in the world, and how long is waited for whom.
    pub settings: Settings,
    /// How parameter servers are kept, where the job has some.
    pub servers: ps_membership::Settings,
    /// Where checkpoints of their parameters are kept, if they are made.
    pub checkpoints: Option<Checkpoints>,
    /// Where the journal is kept. Without it a restart of the master restarts all workers.
    pub state: Option<PathBuf>,
    /// The token that every call of ours must carry. Without it everyone may call.
    pub token: Option<Token>,
    /// What torchrun reads is served as plain bytes, nothing is understood.
    pub plain_store: bool,
}

/// Where a master learns how many nodes there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldSource {
    /// The smallest world.
    pub min: u32,
    /// The greatest world.
    pub max: u32,
}

/// A `--world` that says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("write static:MIN:MAX, for example static:2:4, or static:N")]
pub struct WorldSourceError;

impl FromStr for WorldSource {
    type Err = WorldSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let sizes = text.strip_prefix("static:").ok_or(WorldSourceError)?;
        let (min, max) = sizes.split_once(':').unwrap_or((sizes, sizes));
        let number = |text: &str| text.parse::<u32>().map_err(|_| WorldSourceError);
        Ok(Self { min: number(min)?, max: number(max)? })
    }
}

impl WorldSource {
    /// The settings of a rendezvous for these sizes.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        Settings::new(self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_given_by_its_sizes() {
        assert_eq!("static:2:4".parse(), Ok(WorldSource { min: 2, max: 4 }));
        assert_eq!("static:3".parse(), Ok(WorldSource { min: 3, max: 3 }));
        for wrong in ["2:4", "static:", "static:a:b", "static:1:2:3", "feed"] {
            assert_eq!(wrong.parse::<WorldSource>(), Err(WorldSourceError), "{wrong}");
        }
    }
}
