//! The status of a pod, as its supervisor writes it into the status folder.

use flexor_engine::Cause;
use flexor_model::Reason;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits::MemoryLimit;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    pub uid: String,
    /// The supervisor's pid and start time, which together name the process for good.
    pub supervisor: (i32, u64),
    pub phase: PodPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Init containers first.
    pub containers: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not all containers have started.
    Pending,
    Running,
    /// All containers ended with exit code 0.
    Succeeded,
    /// A container failed.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
    pub restarts: u32,
    /// It is an init container or a sidecar.
    #[serde(default)]
    pub init: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<MemoryLimit>,
    /// When it was last killed from outside, not for its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_at: Option<Timestamp>,
    /// When its program failed, by the time of what it printed or left in its error file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// Why the rest of its log is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_cut: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerState {
    /// Not started, for this reason.
    Waiting(String),
    #[serde(rename_all = "camelCase")]
    Running { pid: u32, started_at: Timestamp },
    #[serde(rename_all = "camelCase")]
    Terminated {
        /// 128 plus the signal's number where a signal ended it.
        exit_code: i32,
        /// `Completed`, `Error`, `OOMKilled`, `StartError`, …
        reason: String,
        /// Why it failed: what it left in its error file, its Python exception, or its last line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
        finished_at: Timestamp,
    },
}

impl PodPhase {
    /// Whether the pod has ended.
    pub fn is_over(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}

impl PodStatus {
    /// A cause for each log that was cut since an earlier status of the same pod.
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
    fn a_cut_log_is_reported_once() {
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
                failed_at: None,
                log_cut: cut.map(str::to_owned),
            }],
        };
        let (whole, cut) = (status(None), status(Some("no space left")));
        let causes: Vec<String> = cut.logs_cut_since(Some(&whole)).iter().map(ToString::to_string).collect();
        assert_eq!(causes, ["LogCut: the log of container main ends here: no space left; the program goes on"]);
        assert_eq!(cut.logs_cut_since(None).len(), 1);
        assert!(cut.logs_cut_since(Some(&cut)).is_empty() && whole.logs_cut_since(Some(&cut)).is_empty());
    }
}
