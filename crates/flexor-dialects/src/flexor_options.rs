//! `spec.flexor`: the one place for options of ours in foreign kinds.

use flexor_model::Checkpoints;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often checkpoints are made where nothing is said, and how many are kept.
const EVERY_SECONDS: u32 = 60;
const KEEP: u32 = 3;

/// Options of Flexor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlexorOptions {
    /// On how many parameter servers each parameter is kept, 1 or 2: with 2 nothing is lost with a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2))]
    pub ps_replication_factor: Option<i32>,
    /// Where and how often the parameters are written down. A job goes on from what it finds there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointOptions>,
}

/// Checkpoints of the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointOptions {
    /// A folder that all parameter servers reach, a volume of theirs or a path of the machine.
    #[schemars(length(min = 1))]
    pub folder: String,
    /// How many seconds lie between two; 60 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub every_seconds: Option<i32>,
    /// How many are kept; 3 where nothing is said, 0 for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep: Option<i32>,
}

impl FlexorOptions {
    /// How many copies of parameters are kept.
    pub(crate) fn copies(options: Option<&Self>) -> u32 {
        let asked = options.and_then(|options| options.ps_replication_factor).unwrap_or(1);
        u32::try_from(asked).unwrap_or(1).clamp(1, 2)
    }

    /// Where checkpoints are kept, if they are made.
    pub(crate) fn checkpoints(options: Option<&Self>) -> Option<Checkpoints> {
        let asked = options?.checkpoints.as_ref()?;
        let number =
            |asked: Option<i32>, usual: u32| asked.map_or(usual, |asked| u32::try_from(asked).unwrap_or(usual));
        Some(Checkpoints {
            folder: asked.folder.clone(),
            every_seconds: number(asked.every_seconds, EVERY_SECONDS).max(1),
            keep: number(asked.keep, KEEP),
        })
    }
}
