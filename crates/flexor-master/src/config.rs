//! What a master is started with.

use std::path::PathBuf;
use std::str::FromStr;

use flexor_engine::psmembers;
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
    pub servers: psmembers::Settings,
    /// Where checkpoints of their parameters are kept, if they are made.
    pub checkpoints: Option<Checkpoints>,
    /// Where the journal is kept. Without it a restart of the master restarts all workers.
    pub state: Option<PathBuf>,
    /// The token that every call of ours must carry. Without it everyone may call.
    pub token: Option<Token>,
    /// What torchrun reads is served as plain bytes, nothing is understood.
    pub plain_store: bool,
}

/// The number of nodes that a world may have, as torchrun's `--nnodes` writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRange {
    /// The smallest world.
    pub min: u32,
    /// The greatest world.
    pub max: u32,
}

/// Text that is no node range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("write MIN:MAX, for example 2:4, or N")]
pub struct NodeRangeError;

impl FromStr for NodeRange {
    type Err = NodeRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (min, max) = text.split_once(':').unwrap_or((text, text));
        let number = |text: &str| text.parse::<u32>().map_err(|_| NodeRangeError);
        Ok(Self { min: number(min)?, max: number(max)? })
    }
}

impl NodeRange {
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
        assert_eq!("2:4".parse(), Ok(NodeRange { min: 2, max: 4 }));
        assert_eq!("3".parse(), Ok(NodeRange { min: 3, max: 3 }));
        for wrong in ["2:4", "", ":", "2:", "a:b", "1:2:3", "feed"] {
            assert_eq!(wrong.parse::<NodeRange>(), Err(NodeRangeError), "{wrong}");
        }
    }
}
