//! A pod's status as Kubernetes writes it, read into what the controller observes.
//!
//! [`observe`] is the only reader: the operator hands it what the API server says, the laptop cluster what its pod
//! supervisors wrote. It collects the facts of an end (exit code, reasons, disruption); what kind of end that was is
//! [`nodes::classify`](crate::nodes::classify)'s to say. It is not for reading specs or deciding anything.

mod log_tail;
#[cfg(test)]
mod tests;

use std::time::Duration;

use flexor_model::{NodeId, Rank, Reason, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use crate::Cause;
use crate::controller::{ObservedPod, PodPhase};
use crate::nodes::{ObservedExit, ProgramExit};
use crate::render::SIDECAR;

/// A main program that fails within this time after its sidecar was killed failed because of that.
const SIDECAR_LOSS: Duration = Duration::from_secs(30);
/// Exit code of a process that was killed by SIGKILL.
const SIGKILLED: i32 = 137;

/// The fields of a `v1` PodStatus that decide something; others are ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: Phase,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
    /// `Evicted`, `Preempting`, `NodeLost`, `OutOfcpu`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The node does not answer. The pod counts as running until the cluster deletes it or gives it another phase.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// `PodScheduled`, `DisruptionTarget`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub ready: bool,
    pub restart_count: u32,
    pub state: ContainerState,
    /// How the run before the current one ended, of a container that was restarted.
    #[serde(skip_serializing_if = "ContainerState::is_empty")]
    pub last_state: ContainerState,
    /// When its program failed, by the time of what it printed. A kubelet does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<UnixTime>,
}

/// At most one of the three is set; none means waiting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// `ContainerCreating`, `ImagePullBackOff`, `CreateContainerConfigError`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    pub started_at: Option<UnixTime>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// 128 plus the signal's number for a process that a signal ended.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started_at: Option<UnixTime>,
    pub finished_at: Option<UnixTime>,
    /// The container's termination message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The metadata of a pod that the controller needs beside its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodMetadata {
    pub name: String,
    pub uid: String,
    pub role: RoleName,
    pub id: NodeId,
    pub rank: Rank,
    /// The pod has a deletion timestamp.
    pub deleting: bool,
    /// Its grace period is over and its node does not answer.
    pub overdue: bool,
}

/// What the controller observes of a pod whose main container is called `main`.
pub fn observe(pod: PodMetadata, status: &PodStatus, main: &str) -> ObservedPod {
    let phase = status.phase.into();
    let main = status.container_statuses.iter().find(|container| container.name == main);
    let deciding = deciding_container(status, main);
    let (started_at, finished_at) = deciding.map_or((None, None), |(container, _)| run_times(&container.state));
    ObservedPod {
        name: pod.name,
        uid: pod.uid,
        role: pod.role,
        id: pod.id,
        rank: pod.rank,
        phase,
        deleting: pod.deleting,
        overdue: pod.overdue,
        pending: if phase == PodPhase::Pending { pending_cause(status) } else { None },
        end: read_end(status, main, deciding),
        started_at,
        finished_at,
    }
}

impl From<Phase> for PodPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Pending => PodPhase::Pending,
            Phase::Running | Phase::Unknown => PodPhase::Running,
            Phase::Succeeded => PodPhase::Succeeded,
            Phase::Failed => PodPhase::Failed,
        }
    }
}

impl ContainerState {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Terminated {
    /// SIGKILL ended the container, and not because of its memory.
    fn is_killed(&self) -> bool {
        self.exit_code == SIGKILLED && self.reason.as_deref() != Some("OOMKilled")
    }
}

/// Whether a container is an init container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Main,
    Init,
}

/// The container whose end is the pod's end: the init container that failed first, if the main one never ran; else the
/// main container. Sidecars end after the main container, so they never decide while it has ended.
fn deciding_container<'a>(
    status: &'a PodStatus,
    main: Option<&'a ContainerStatus>,
) -> Option<(&'a ContainerStatus, Kind)> {
    let has_ended = main.is_some_and(|main| main.state.terminated.is_some());
    let failed_init = status
        .init_container_statuses
        .iter()
        .filter(|_| status.phase == Phase::Failed && !has_ended)
        .filter_map(|container| Some((failed_at(container)?, container)))
        .min_by_key(|(at, _)| *at)
        .map(|(_, container)| (container, Kind::Init));
    failed_init.or(main.map(|main| (main, Kind::Main)))
}

fn read_end(
    status: &PodStatus,
    main: Option<&ContainerStatus>,
    deciding: Option<(&ContainerStatus, Kind)>,
) -> ObservedExit {
    let mut end = ObservedExit { pod_reason: status.reason.clone(), ..ObservedExit::default() };
    let disruption = status.conditions.iter().find(|one| one.kind == "DisruptionTarget" && one.status == "True");
    end.disruption = disruption.map(|one| one.reason.clone().unwrap_or_default());
    if let Some((container, kind)) = deciding {
        if let Some(terminated) = &container.state.terminated {
            end.exit = Some(ProgramExit::Code(terminated.exit_code));
            end.container_reason.clone_from(&terminated.reason);
            end.failed_at = container.failed_at.or(terminated.finished_at);
            end.error = match (kind, &terminated.message) {
                (Kind::Init, Some(message)) => Some(format!("init container {}: {message}", container.name)),
                (Kind::Init, None) => Some(format!("init container {}", container.name)),
                // The sidecar has read what the program left; the container's own message may be the end of its log.
                (Kind::Main, message) => sidecar_message(status, terminated)
                    .or_else(|| message.as_deref().map(|message| log_tail::cause(message).to_owned())),
            };
        } else if let Some((waiting, _)) = container.state.waiting.as_ref().and_then(refusal) {
            end.container_reason.clone_from(&waiting.reason);
            end.error.clone_from(&waiting.message);
        }
    }
    if lost_its_sidecar(status, main) {
        end.pod_reason.get_or_insert_with(|| "SidecarKilled".to_owned());
    }
    // The scheduler says for which pod it made room; the kubelet does for pods that it admits.
    if matches!(status.reason.as_deref(), Some("Preempted" | "Preempting")) {
        end.error.clone_from(&status.message);
    } else if let Some(preemption) = disruption.filter(|one| one.reason.as_deref() == Some("PreemptionByScheduler")) {
        end.error.clone_from(&preemption.message);
    }
    // A pod that failed while none of its containers did was lost with its machine.
    let is_explained = end.exit.is_some() || end.container_reason.is_some() || end.disruption.is_some();
    if status.phase == Phase::Failed && !is_explained {
        end.pod_reason.get_or_insert_with(|| "NodeLost".to_owned());
    }
    end
}

/// What the sidecar says of a main program that has failed.
fn sidecar_message(status: &PodStatus, main: &Terminated) -> Option<String> {
    let sidecar = status.init_container_statuses.iter().find(|container| container.name == SIDECAR)?;
    let message = sidecar.state.terminated.as_ref()?.message.clone()?;
    (main.exit_code != 0 && !message.is_empty()).then_some(message)
}

/// Whether the main program failed just after a sidecar was killed, through which it reaches the rest of the job.
fn lost_its_sidecar(status: &PodStatus, main: Option<&ContainerStatus>) -> bool {
    let Some(failed_at) = main.and_then(failed_at) else { return false };
    let runs = status.init_container_statuses.iter().flat_map(|container| [&container.state, &container.last_state]);
    let killed = runs.filter_map(|run| run.terminated.as_ref().filter(|end| end.is_killed())?.finished_at);
    killed.into_iter().any(|at| at <= failed_at && failed_at.saturating_sub(at) < SIDECAR_LOSS)
}

fn failed_at(container: &ContainerStatus) -> Option<UnixTime> {
    let terminated = container.state.terminated.as_ref().filter(|end| end.exit_code != 0)?;
    Some(terminated.finished_at.unwrap_or_default())
}

/// When a container's current run started and ended.
fn run_times(state: &ContainerState) -> (Option<UnixTime>, Option<UnixTime>) {
    match state {
        ContainerState { terminated: Some(end), .. } => (end.started_at, end.finished_at),
        ContainerState { running: Some(running), .. } => (running.started_at, None),
        ContainerState { .. } => (None, None),
    }
}

/// What keeps a pending pod from being started.
fn pending_cause(status: &PodStatus) -> Option<Cause> {
    let is_unscheduled = |one: &&Condition| one.kind == "PodScheduled" && one.status == "False";
    if let Some(condition) = status.conditions.iter().find(is_unscheduled) {
        let message = condition.message.as_deref().or(condition.reason.as_deref()).unwrap_or("no node has room for it");
        return Some(Cause::new(Reason::Unschedulable, message));
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    let (waiting, reason) = containers.filter_map(|container| container.state.waiting.as_ref()).find_map(refusal)?;
    let message = waiting.message.as_deref().or(waiting.reason.as_deref()).unwrap_or_default();
    Some(Cause::new(reason, message))
}

/// The cause for which a kubelet cannot start a container, if it names one. It tries again by itself.
fn refusal(waiting: &Waiting) -> Option<(&Waiting, Reason)> {
    let reason = match waiting.reason.as_deref()? {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "CreateContainerConfigError" => Reason::MissingReference,
        "CreateContainerError"
        | "RunContainerError"
        | "CreatePodSandboxError"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "PostStartHookError" => Reason::CreateRefused,
        _ => return None,
    };
    Some((waiting, reason))
}
