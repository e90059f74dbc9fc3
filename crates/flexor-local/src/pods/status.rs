//! What has become of a pod, as its parent writes it down.

use flexor_engine::Cause;
use flexor_model::Reason;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits::Limited;

/// The status of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Whose.
    pub uid: String,
    /// The process of its parent, and when that started, which names it for good.
    pub supervisor: (i32, u64),
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
    /// How its memory is limited, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
    /// When somebody last killed it, and not for its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_at: Option<Timestamp>,
    /// Why its log could not be written to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_cut: Option<String>,
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

impl PodStatus {
    /// The logs that could not be written any more since an earlier status of the same pod.
    pub(crate) fn logs_cut_since(&self, before: Option<&PodStatus>) -> Vec<Cause> {
        let was_cut = |name: &str| {
            let known = before.into_iter().flat_map(|status| &status.containers).find(|known| known.name == name);
            known.is_some_and(|known| known.log_cut.is_some())
        };
        let cut = self.containers.iter().filter_map(|container| Some((&container.name, container.log_cut.as_ref()?)));
        cut.filter(|(name, _)| !was_cut(name))
            .map(|(name, why)| {
                let detail = format!("the log of container {name} ends here: {why}; the program goes on");
                Cause::new(Reason::LogCut, detail)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_cut_is_told_of_once() {
        let status = |cut: Option<&str>| PodStatus {
            uid: "u".to_owned(),
            supervisor: (1, 1),
            phase: PodPhase::Running,
            reason: None,
            message: None,
            containers: vec![ContainerStatus {
                name: "main".to_owned(),
                state: ContainerState::Waiting("ContainerCreating".to_owned()),
                restarts: 0,
                init: false,
                limited: None,
                killed_at: None,
                log_cut: cut.map(str::to_owned),
            }],
        };
        let (whole, cut) = (status(None), status(Some("no space left")));
        let told: Vec<String> = cut.logs_cut_since(Some(&whole)).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["LogCut: the log of container main ends here: no space left; the program goes on"]);
        assert_eq!(cut.logs_cut_since(None).len(), 1);
        assert!(cut.logs_cut_since(Some(&cut)).is_empty() && whole.logs_cut_since(Some(&cut)).is_empty());
    }
}
