//! The configuration of a master.

use std::path::PathBuf;
use std::str::FromStr;

use flexor_engine::ps_membership;
use flexor_engine::rendezvous::{Settings, SettingsError};
use flexor_model::{JobName, JobUid};
use flexor_wire::Token;
use thiserror::Error;

pub use crate::journal::LossPolicy;
pub use crate::servers::Checkpoints;

/// The configuration of a master.
#[derive(Debug, Clone)]
pub struct Config {
    /// The job that the master serves; also the name of the run of the native API.
    pub job: JobName,
    /// Distinguishes the job from others of the same name. The journal belongs to this uid.
    pub uid: JobUid,
    /// The sizes of the world and the timeouts of the rendezvous.
    pub settings: Settings,
    /// How partitions are replicated and balanced, if the job has parameter servers.
    pub servers: ps_membership::Settings,
    /// Where checkpoints of the parameter servers are written, if at all.
    pub checkpoints: Option<Checkpoints>,
    /// The directory of the journal. Without a journal, a restart of the master restarts all workers.
    pub state: Option<PathBuf>,
    /// What the master does if the journal has lost acknowledged facts.
    pub journal_loss: LossPolicy,
    /// The token that every gRPC call must carry. Without it any client may call.
    pub token: Option<Token>,
    /// Names under which `/api` is called, besides those of loopback and the address of its port.
    pub hosts: Vec<String>,
    /// Serve torchrun a plain TCPStore, which interprets no keys.
    pub plain_store: bool,
}

/// The number of nodes that a world may have, as torchrun's `--nnodes` writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRange {
    pub min: u32,
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
    /// Settings of a rendezvous for these sizes.
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
        for wrong in ["static:2:4", "", ":", "2:", "a:b", "1:2:3", "feed"] {
            assert_eq!(wrong.parse::<NodeRange>(), Err(NodeRangeError), "{wrong}");
        }
    }
}
