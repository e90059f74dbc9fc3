//! A pod of the cluster: who it is, which its folder says, and what its parent says of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flexor_agent::processes::kill_orphans_of;
use flexor_engine::Cause;
use flexor_engine::controller::{DesiredPod, ObservedPod, PodPhase};
use flexor_engine::nodes::{ObservedExit, ProgramExit};
use flexor_model::{PortName, Reason, UnixTime};
use jiff::Timestamp;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JobKey, now};
use crate::pods::status::{self, ContainerState, ContainerStatus, PodStatus};
use crate::proc::PodProcess;
use crate::state_dir::StateDir;
use crate::whole_file;

/// A program that fails within this time after its sidecar was killed fails of that.
const SIDECAR_MISSED: Duration = Duration::from_secs(30);

/// A pod.
#[derive(Debug, Clone)]
pub struct PodRecord {
    /// Who it is.
    pub meta: PodMeta,
    /// What its parent last said.
    pub status: Option<PodStatus>,
    /// Its parent, while that is alive: the process and when it started.
    pub supervisor: Option<(i32, u64)>,
    /// When its parent was found dead that had not said how the pod ended.
    pub lost_at: Option<UnixTime>,
    /// Why nothing of it can run.
    pub trouble: Option<String>,
    /// Why it is not started yet.
    pub pending: Option<PendingReason>,
    /// The pod ends when this is closed.
    pub owner: Option<Arc<PipeWriter>>,
}

/// Why a pod is not started yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingReason {
    /// It has not been looked at.
    New,
    /// There is no room for it; the text says how much there would have to be.
    Unschedulable(String),
    /// Something that it refers to is not there; the text says what.
    MissingReference(String),
    /// The system refuses what it needs; it is tried again.
    CreateRefused(String),
}

impl PendingReason {
    /// What people are told of it.
    pub(super) fn cause(&self) -> Option<Cause> {
        let (reason, why) = match self {
            PendingReason::New => return None,
            PendingReason::Unschedulable(why) => (Reason::Unschedulable, why),
            PendingReason::MissingReference(why) => (Reason::MissingReference, why),
            PendingReason::CreateRefused(why) => (Reason::CreateRefused, why),
        };
        Some(Cause::new(reason, why.clone()))
    }
}

/// Who a pod is; written when it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMeta {
    /// Its unique id.
    pub uid: String,
    /// What the controller wants it to be: its name, its role, its place, and why.
    pub desired: DesiredPod,
    /// Whose it is.
    pub job: JobKey,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Where it listens, by the names of the ports.
    pub ports: BTreeMap<PortName, SocketAddr>,
    /// When it was made.
    pub created_at: UnixTime,
    /// The Pod as the renderer made it.
    pub rendered: Value,
    /// Its main container.
    pub main: String,
    /// How long it may take to end.
    #[serde(default)]
    pub grace: Duration,
    /// Since when it is to go.
    pub deleting_since: Option<UnixTime>,
    /// It goes to make room, for whom and why.
    #[serde(default)]
    pub evicted: Option<String>,
}

impl PodRecord {
    /// One that has not been started.
    pub(super) fn waiting(meta: PodMeta) -> Self {
        Self {
            meta,
            status: None,
            supervisor: None,
            lost_at: None,
            trouble: None,
            pending: Some(PendingReason::New),
            owner: None,
        }
    }

    /// Whether it is to go.
    pub fn is_deleting(&self) -> bool {
        self.meta.deleting_since.is_some()
    }

    /// The program of a container, while it runs.
    pub(crate) fn program(&self, container: &str) -> Option<PodProcess> {
        let containers = self.status.iter().flat_map(|status| &status.containers);
        let running = containers.filter(|known| known.name == container).find_map(|known| match known.state {
            ContainerState::Running { pid, .. } => i32::try_from(pid).ok(),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        });
        PodProcess::program(self.supervisor?, running?)
    }

    /// Sends its parent a signal, if it is still there.
    pub(super) fn signal_supervisor(&self, signal: Signal) {
        if let Some(supervisor) = self.supervisor.and_then(PodProcess::supervisor) {
            supervisor.send(signal);
        }
    }

    /// Whether something keeps it from being started, for who knows how long.
    pub(super) fn is_held_up(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| *pending != PendingReason::New)
    }

    /// Whether it waits for room.
    pub fn waits_for_room(&self) -> bool {
        matches!(self.pending, Some(PendingReason::Unschedulable(_)))
    }

    /// How far it is.
    pub fn phase(&self) -> PodPhase {
        if self.trouble.is_some() {
            return PodPhase::Failed;
        }
        if self.pending.is_some() {
            return PodPhase::Pending;
        }
        let phase = self.status.as_ref().map_or(status::PodPhase::Pending, |status| status.phase);
        match phase {
            status::PodPhase::Succeeded => PodPhase::Succeeded,
            status::PodPhase::Failed => PodPhase::Failed,
            // Whoever should have said how it ended was lost with it.
            _ if self.supervisor.is_none() => PodPhase::Failed,
            status::PodPhase::Pending => PodPhase::Pending,
            status::PodPhase::Running => PodPhase::Running,
        }
    }

    /// What the controller sees.
    pub(super) fn seen(&self) -> ObservedPod {
        let containers = || self.status.iter().flat_map(|status| &status.containers);
        let main = containers().find(|one| one.name == self.meta.main);
        // Where one of those that come first has failed, the program was never started. Sidecars are ended after it.
        let failed_first = containers().filter(|one| one.init && self.phase() == PodPhase::Failed);
        let failed_first = failed_first.filter_map(|one| Some((failed_at(one)?, one))).min_by_key(|(at, _)| *at);
        let failed_first = failed_first.map(|(_, one)| one);
        let mut end = ObservedExit::default();
        let (mut started_at, mut finished_at) = (None, None);
        match failed_first.filter(|_| !main.is_some_and(has_ended)).or(main).map(|one| (one, &one.state)) {
            Some((
                one,
                ContainerState::Terminated { exit_code, reason, message, started_at: start, finished_at: finish },
            )) => {
                end.exit = Some(ProgramExit::Code(*exit_code));
                end.container_reason = Some(reason.clone());
                end.error = match (one.init, message) {
                    (true, Some(message)) => Some(format!("init container {}: {message}", one.name)),
                    (true, None) => Some(format!("init container {}", one.name)),
                    (false, message) => message.clone(),
                };
                (started_at, finished_at) = (start.map(since_epoch), Some(since_epoch(*finish)));
            }
            Some((_, ContainerState::Running { started_at: start, .. })) => started_at = Some(since_epoch(*start)),
            Some((_, ContainerState::Waiting(_))) | None => {}
        }
        end.pod_reason = self.status.as_ref().and_then(|status| status.reason.clone());
        if self.lost_its_sidecar() {
            end.pod_reason.get_or_insert_with(|| "SidecarKilled".to_owned());
        }
        if let Some(why) = &self.meta.evicted {
            (end.pod_reason, end.error) = (Some("Preempted".to_owned()), Some(why.clone()));
        }
        if let Some(trouble) = &self.trouble {
            end.container_reason = Some("CreateContainerError".to_owned());
            end.error = Some(trouble.clone());
        } else if self.phase() == PodPhase::Failed && end.exit.is_none() {
            end.pod_reason.get_or_insert_with(|| "NodeLost".to_owned());
        }
        ObservedPod {
            name: self.meta.desired.name.clone(),
            uid: self.meta.uid.clone(),
            role: self.meta.desired.role.clone(),
            id: self.meta.desired.id,
            rank: self.meta.desired.rank,
            phase: self.phase(),
            deleting: self.is_deleting(),
            // This machine kills what does not end in time by itself.
            overdue: false,
            pending: self.pending.as_ref().and_then(PendingReason::cause),
            end,
            started_at,
            finished_at,
        }
    }

    /// Whether its program failed just after what stands beside it was killed, through which it reaches the others.
    fn lost_its_sidecar(&self) -> bool {
        let containers = || self.status.iter().flat_map(|status| &status.containers);
        let failed_at = containers().find(|one| one.name == self.meta.main).and_then(failed_at);
        let killed = containers().filter(|one| one.init).filter_map(|one| one.killed_at);
        let just_before = |killed_at: Timestamp, failed_at: Timestamp| {
            let between = failed_at.duration_since(killed_at);
            !between.is_negative() && between.unsigned_abs() < SIDECAR_MISSED
        };
        failed_at.is_some_and(|failed_at| killed.into_iter().any(|killed_at| just_before(killed_at, failed_at)))
    }

    /// Writes down who it is.
    pub(super) fn save(&self, state_dir: &StateDir) -> io::Result<()> {
        state_dir.write_faults().check()?;
        whole_file::write(&state_dir.pod(&self.meta.uid).path().join("meta.json"), &self.meta)
    }
}

fn since_epoch(at: Timestamp) -> UnixTime {
    at.try_into().unwrap_or_default()
}

/// All pods of a cluster that ran before. What was not made whole is removed.
pub(super) fn read_all(state_dir: &StateDir) -> io::Result<Vec<PodRecord>> {
    let (mut pods, mut lost) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(state_dir.pods())? {
        let entry = entry?;
        let uid = entry.file_name().to_string_lossy().into_owned();
        let folder = state_dir.pod(&uid);
        match fs::read(folder.path().join("meta.json")) {
            Ok(bytes) => {
                let meta: PodMeta = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
                if !folder.has_plan()? {
                    pods.push(PodRecord::waiting(meta));
                    continue;
                }
                // Where its parent never came to write anything it is made anew, under another id: one that is late
                // finds nothing to run.
                if folder.status()?.is_none() && folder.remove_unless_begun()? {
                    let pod = PodRecord::waiting(PodMeta { uid: super::uid(), ..meta });
                    state_dir.pod(&pod.meta.uid).begin()?;
                    pod.save(state_dir)?;
                    pods.push(pod);
                    continue;
                }
                let status = folder.status()?;
                let said = status.as_ref().map(|status| (status.supervisor, status.phase.is_over()));
                let supervisor =
                    said.map(|(supervisor, _)| supervisor).filter(|supervisor| crate::proc::is_alive(*supervisor));
                let mut lost_at = None;
                if let (None, Some((dead, false))) = (supervisor, said) {
                    lost.push(dead);
                    lost_at = Some(now());
                }
                pods.push(PodRecord { meta, status, supervisor, lost_at, trouble: None, pending: None, owner: None });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.remove()?,
            Err(error) => return Err(error),
        }
    }
    // What they looked after lives on where nobody was there to see them die; another may have the number by now.
    lost.retain(|(pid, started)| crate::proc::started(*pid).is_none_or(|now| now == *started));
    if !lost.is_empty() {
        kill_orphans_of(&lost.iter().map(|(pid, _)| pid.unsigned_abs()).collect::<Vec<_>>());
    }
    // Those that were to go, and have.
    let gone = |pod: &PodRecord| pod.is_deleting() && pod.supervisor.is_none();
    for pod in pods.extract_if(.., |pod| gone(pod)) {
        state_dir.pod(&pod.meta.uid).remove()?;
    }
    Ok(pods)
}

fn has_ended(container: &ContainerStatus) -> bool {
    matches!(container.state, ContainerState::Terminated { .. })
}

fn failed_at(container: &ContainerStatus) -> Option<Timestamp> {
    match container.state {
        ContainerState::Terminated { exit_code, finished_at, .. } if exit_code != 0 => Some(finished_at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flexor_model::{NodeId, Rank, Resources};

    use super::*;

    fn pod(supervisor: Option<(i32, u64)>, phase: Option<status::PodPhase>, reason: Option<&str>) -> PodRecord {
        let of = |phase| PodStatus {
            uid: "u".to_owned(),
            supervisor: (1, 1),
            phase,
            reason: reason.map(str::to_owned),
            message: None,
            containers: Vec::new(),
        };
        let desired = DesiredPod {
            name: "p".to_owned(),
            role: "worker".parse().unwrap(),
            id: NodeId(0),
            rank: Rank(0),
            relaunches: 0,
            labels: BTreeMap::new(),
            replicas: BTreeMap::new(),
            resources: Resources::default(),
            memory: None,
            cause: Cause::new(Reason::PodWanted, "a test wants it"),
        };
        let meta = PodMeta {
            uid: "u".to_owned(),
            desired,
            job: JobKey { namespace: "n".parse().unwrap(), name: "j".parse().unwrap() },
            address: Ipv4Addr::LOCALHOST,
            ports: BTreeMap::new(),
            created_at: UnixTime::EPOCH,
            rendered: Value::Null,
            main: "main".to_owned(),
            grace: Duration::ZERO,
            deleting_since: None,
            evicted: None,
        };
        PodRecord { meta, status: phase.map(of), supervisor, lost_at: None, trouble: None, pending: None, owner: None }
    }

    #[test]
    fn a_pod_whose_parent_is_lost_has_failed_however_far_it_was() {
        use status::PodPhase::{Pending, Running, Succeeded};
        for phase in [None, Some(Pending), Some(Running)] {
            let seen = pod(None, phase, None).seen();
            assert_eq!((seen.phase, seen.end.pod_reason.as_deref()), (PodPhase::Failed, Some("NodeLost")), "{phase:?}");
            assert!(!pod(Some((1, 1)), phase, None).seen().has_ended());
        }
        assert_eq!(pod(None, Some(Succeeded), None).phase(), PodPhase::Succeeded);
    }

    #[test]
    fn a_pod_that_was_lost_before_it_was_to_go_was_not_taken_away() {
        let mut pod = pod(None, Some(status::PodPhase::Running), None);
        pod.meta.deleting_since = Some(UnixTime::from_secs(2));
        let mut was_taken_away = |lost_at| {
            pod.lost_at = Some(UnixTime::from_secs(lost_at));
            pod.pod_run().taken_away
        };
        assert!(!was_taken_away(1) && was_taken_away(3));
    }

    #[test]
    fn a_pod_that_was_told_to_end_says_so_whatever_its_program_answered() {
        let seen = pod(None, Some(status::PodPhase::Failed), Some("NodeShutdown")).seen();
        assert_eq!(seen.end.pod_reason.as_deref(), Some("NodeShutdown"));
    }
}
