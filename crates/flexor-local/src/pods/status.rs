//! What has become of a pod, as its parent writes it down.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Whose.
    pub uid: String,
    /// The process of its parent, and when that started, which names it for good.
    pub parent: (i32, u64),
    /// How far it is.
    pub phase: PodPhase,
    /// Why, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its containers, those that come first before the others.
    pub containers: Vec<ContainerStatus>,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not all of it has started.
    Pending,
    /// It runs.
    Running,
    /// All its containers have ended well.
    Succeeded,
    /// One of them has not.
    Failed,
}

/// The status of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Which.
    pub name: String,
    /// How far it is.
    pub state: ContainerState,
    /// How often it was started again.
    pub restarts: u32,
    /// It is one of those that come first, or stand beside.
    #[serde(default)]
    pub init: bool,
}

/// How far a container is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// Not started, for this reason.
    Waiting(String),
    /// It runs.
    #[serde(rename_all = "camelCase")]
    Running {
        /// As this process.
        pid: u32,
        /// Since then.
        started_at: Timestamp,
    },
    /// It has ended.
    #[serde(rename_all = "camelCase")]
    Terminated {
        /// With this code; 128 and the number for a signal.
        exit_code: i32,
        /// `Completed`, `Error`, `OOMKilled`, `StartError`, …
        reason: String,
        /// What the program left to be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// When it was started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
        /// When it ended.
        finished_at: Timestamp,
    },
}

impl PodPhase {
    /// Whether nothing more will happen.
    pub fn is_over(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}
