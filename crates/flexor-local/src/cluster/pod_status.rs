//! A pod's status in the shape of Kubernetes, from what its supervisor wrote and what the cluster knows of it.
//!
//! The controller reads it ([`observe`]), and `flexor get pod -o yaml` shows it, so both see the same.

use flexor_engine::controller::{ObservedPod, PodPhase};
use flexor_engine::pod_status::{
    Condition, ContainerState, ContainerStatus, Phase, PodMetadata, PodStatus, Running, Terminated, Waiting, observe,
};
use flexor_model::UnixTime;
use jiff::Timestamp;

use super::{PendingReason, PodRecord};
use crate::pods::status as supervisor;

impl PodRecord {
    /// The pod as the controller observes it.
    pub(super) fn observe(&self) -> ObservedPod {
        let desired = &self.meta.desired;
        let metadata = PodMetadata {
            name: desired.name.clone(),
            uid: self.meta.uid.clone(),
            role: desired.role.clone(),
            id: desired.id,
            rank: desired.rank,
            deleting: self.is_deleting(),
            overdue: false,
        };
        observe(metadata, &self.kubernetes_status(&[]), &self.meta.main)
    }

    /// The pod's status, in which the init containers of these names are sidecars.
    pub(crate) fn kubernetes_status(&self, sidecars: &[&str]) -> PodStatus {
        let phase = self.phase();
        let reported = self.status.as_ref();
        let containers = |init: bool| -> Vec<ContainerStatus> {
            let containers = reported.into_iter().flat_map(|status| &status.containers).filter(|one| one.init == init);
            containers.map(|one| container(one, init && !sidecars.contains(&one.name.as_str()))).collect()
        };
        let mut status = PodStatus {
            phase: match phase {
                PodPhase::Pending => Phase::Pending,
                PodPhase::Running => Phase::Running,
                PodPhase::Succeeded => Phase::Succeeded,
                PodPhase::Failed => Phase::Failed,
            },
            container_statuses: containers(false),
            init_container_statuses: containers(true),
            reason: reported.and_then(|status| status.reason.clone()),
            message: reported.and_then(|status| status.message.clone()),
            ..PodStatus::default()
        };
        if let Some(pending) = &self.pending {
            self.add_pending_reason(&mut status, pending);
        }
        if let Some(error) = &self.trouble {
            status.container_statuses = vec![waiting(&self.meta.main, "CreateContainerError", error)];
            (status.reason, status.message) = (Some("CreateContainerError".to_owned()), Some(error.clone()));
        } else if let Some(by) = &self.meta.evicted {
            (status.reason, status.message) = (Some("Preempted".to_owned()), Some(by.clone()));
        } else if phase == PodPhase::Failed && !self.has_final_status() {
            (status.reason, status.message) =
                (Some("NodeLost".to_owned()), Some("the supervisor of the pod is gone".to_owned()));
        }
        status
    }

    /// Whether the supervisor reported how the pod ended, or at least how its main program or an init container did.
    fn has_final_status(&self) -> bool {
        let Some(status) = &self.status else { return false };
        let failed = |code: i32| code != 0;
        let decides = |container: &supervisor::ContainerStatus| match container.state {
            supervisor::ContainerState::Terminated { exit_code, .. } => {
                container.name == self.meta.main || container.init && failed(exit_code)
            }
            supervisor::ContainerState::Waiting(_) | supervisor::ContainerState::Running { .. } => false,
        };
        status.phase.is_over() || status.containers.iter().any(decides)
    }

    fn add_pending_reason(&self, status: &mut PodStatus, pending: &PendingReason) {
        match pending {
            PendingReason::New => {}
            PendingReason::Unschedulable(message) => status.conditions.push(Condition {
                kind: "PodScheduled".to_owned(),
                status: "False".to_owned(),
                reason: Some("Unschedulable".to_owned()),
                message: Some(message.clone()),
            }),
            PendingReason::MissingReference(message) => {
                status.container_statuses = vec![waiting(&self.meta.main, "CreateContainerConfigError", message)];
            }
            PendingReason::CreateRefused(message) => {
                status.container_statuses = vec![waiting(&self.meta.main, "CreateContainerError", message)];
            }
        }
    }
}

fn waiting(name: &str, reason: &str, message: &str) -> ContainerStatus {
    let waiting = Waiting { reason: Some(reason.to_owned()), message: Some(message.to_owned()) };
    let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
    ContainerStatus { name: name.to_owned(), state, ..ContainerStatus::default() }
}

/// The status of a container. An init container that runs `to_completion` is ready once it has succeeded.
fn container(reported: &supervisor::ContainerStatus, to_completion: bool) -> ContainerStatus {
    let mut state = ContainerState::default();
    let mut ready = false;
    match &reported.state {
        supervisor::ContainerState::Waiting(reason) => {
            state.waiting = Some(Waiting { reason: Some(reason.clone()), message: None });
        }
        supervisor::ContainerState::Running { started_at, pid, .. } => {
            state.running = Some(Running { started_at: Some(instant(*started_at)) });
            // A supervisor on a full disk cannot write that its program has ended.
            ready = crate::proc::is_running(*pid);
        }
        supervisor::ContainerState::Terminated { exit_code, reason, message, started_at, finished_at } => {
            state.terminated = Some(Terminated {
                exit_code: *exit_code,
                reason: Some(reason.clone()),
                started_at: started_at.map(instant),
                finished_at: Some(instant(*finished_at)),
                message: message.clone(),
            });
            ready = to_completion && *exit_code == 0;
        }
    }
    // The last run that was killed, unless it is the current one.
    let killed_at = reported.killed_at.map(instant);
    let is_current = state.terminated.as_ref().is_some_and(|end| end.finished_at == killed_at);
    let last_run = killed_at.filter(|_| !is_current).map(|finished_at| Terminated {
        exit_code: 137,
        reason: Some("Error".to_owned()),
        finished_at: Some(finished_at),
        ..Terminated::default()
    });
    let last_state = ContainerState { terminated: last_run, ..ContainerState::default() };
    let failed_at = reported.failed_at.map(instant);
    ContainerStatus {
        name: reported.name.clone(),
        ready,
        restart_count: reported.restarts,
        state,
        last_state,
        failed_at,
    }
}

fn instant(at: Timestamp) -> UnixTime {
    at.try_into().unwrap_or_default()
}
