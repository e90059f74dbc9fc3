//! The record of a pod: its metadata, the last status of its supervisor, and why it is pending or failed.
//!
//! The metadata is saved in the pod's folder, from which another process takes the pod over.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flexor_agent::processes::kill_orphans_of;
use flexor_engine::Cause;
use flexor_engine::controller::{DesiredPod, PodPhase};
use flexor_model::{PortName, Reason, UnixTime};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JobKey, now};
use crate::atomic_file;
use crate::pods::status::{self, ContainerState, PodStatus};
use crate::proc::PodProcess;
use crate::state_dir::StateDir;

#[derive(Debug, Clone)]
pub struct PodRecord {
    pub meta: PodMeta,
    /// The last status that its supervisor wrote.
    pub status: Option<PodStatus>,
    /// The process id and start time of its supervisor, while that is alive.
    pub supervisor: Option<(i32, u64)>,
    /// When its supervisor was found dead without having written how the pod ended.
    pub lost_at: Option<UnixTime>,
    /// Why its containers can never be created.
    pub trouble: Option<String>,
    /// Why it is not started yet; none once it was started.
    pub pending: Option<PendingReason>,
    /// The supervisor ends the pod when this pipe is closed.
    pub owner: Option<Arc<PipeWriter>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingReason {
    /// The scheduler has not considered it.
    New,
    /// Not enough CPUs are free; the text says how many it requests.
    Unschedulable(String),
    /// It refers to an object that does not exist; the text names it.
    MissingReference(String),
    /// The system refused to start it; it is tried again.
    CreateRefused(String),
}

impl PendingReason {
    /// The cause to show; none while the pod is new.
    pub(super) fn cause(&self) -> Option<Cause> {
        let (reason, message) = match self {
            PendingReason::New => return None,
            PendingReason::Unschedulable(message) => (Reason::Unschedulable, message),
            PendingReason::MissingReference(message) => (Reason::MissingReference, message),
            PendingReason::CreateRefused(message) => (Reason::CreateRefused, message),
        };
        Some(Cause::new(reason, message.clone()))
    }
}

/// The metadata of a pod; saved when it is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMeta {
    pub uid: String,
    /// The pod that the controller asked for.
    pub desired: DesiredPod,
    pub job: JobKey,
    pub address: Ipv4Addr,
    /// The addresses that it listens on, by port name.
    pub ports: BTreeMap<PortName, SocketAddr>,
    pub created_at: UnixTime,
    /// The Pod as the renderer made it.
    pub rendered: Value,
    /// The name of its main container.
    pub main: String,
    /// The termination grace period.
    #[serde(default)]
    pub grace: Duration,
    /// The deletion timestamp.
    pub deleting_since: Option<UnixTime>,
    /// The pod was preempted: for which pod, in words.
    #[serde(default)]
    pub evicted: Option<String>,
}

impl PodRecord {
    /// A pod that has not been started.
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

    /// Whether it has a deletion timestamp.
    pub fn is_deleting(&self) -> bool {
        self.meta.deleting_since.is_some()
    }

    /// The process of a container, while it runs.
    pub(crate) fn program(&self, container: &str) -> Option<PodProcess> {
        let containers = self.status.iter().flat_map(|status| &status.containers);
        let running = containers.filter(|known| known.name == container).find_map(|known| match known.state {
            ContainerState::Running { pid, .. } => i32::try_from(pid).ok(),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        });
        PodProcess::program(self.supervisor?, running?)
    }

    /// Sends a signal to its supervisor, if that is alive.
    pub(super) fn signal_supervisor(&self, signal: Signal) {
        if let Some(supervisor) = self.supervisor.and_then(PodProcess::supervisor) {
            supervisor.send(signal);
        }
    }

    /// Whether it waits for free CPUs.
    pub fn is_unschedulable(&self) -> bool {
        matches!(self.pending, Some(PendingReason::Unschedulable(_)))
    }

    /// The phase as the controller sees it: a pod whose supervisor was lost has failed.
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
            // The supervisor, which would have written how the pod ended, was lost with it.
            _ if self.supervisor.is_none() => PodPhase::Failed,
            status::PodPhase::Pending => PodPhase::Pending,
            status::PodPhase::Running => PodPhase::Running,
        }
    }

    /// Saves the metadata.
    pub(super) fn save(&self, state_dir: &StateDir) -> io::Result<()> {
        state_dir.write_faults().check()?;
        atomic_file::write(&state_dir.pod(&self.meta.uid).path().join("meta.json"), &self.meta)
    }
}

/// Reads the pods of an earlier process. Folders of pods that were not created completely are removed. A pod whose files
/// cannot be read is lost; it does not keep the others.
pub(super) fn read_all(state_dir: &StateDir) -> io::Result<Vec<PodRecord>> {
    let (mut pods, mut lost) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(state_dir.pods())? {
        let uid = entry?.file_name().to_string_lossy().into_owned();
        let folder = state_dir.pod(&uid);
        match atomic_file::read::<PodMeta>(&folder.path().join("meta.json")) {
            Ok(meta) => pods.push(read_one(state_dir, meta, &mut lost)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.remove()?,
            Err(error) => {
                tracing::error!(%error, "a pod cannot be read; it is lost, and what runs of it is killed");
                let reported = folder.status().ok().flatten().map(|status| status.supervisor);
                let supervisor = reported.or_else(|| crate::proc::supervisor_of(state_dir.path(), &uid));
                if let Some(supervisor) = supervisor {
                    if let Some(process) = PodProcess::supervisor(supervisor) {
                        process.kill();
                    }
                    lost.push(supervisor);
                }
                folder.remove()?;
            }
        }
    }
    // The processes of a lost pod live on if no cluster ran when its supervisor died. Another process may have got the
    // id of that supervisor.
    lost.retain(|(pid, started)| crate::proc::started(*pid).is_none_or(|now| now == *started));
    if !lost.is_empty() {
        kill_orphans_of(&lost.iter().map(|(pid, _)| pid.unsigned_abs()).collect::<Vec<_>>());
    }
    // Pods that were being deleted and have ended.
    let gone = |pod: &PodRecord| pod.is_deleting() && pod.supervisor.is_none();
    for pod in pods.extract_if(.., |pod| gone(pod)) {
        state_dir.pod(&pod.meta.uid).remove()?;
    }
    Ok(pods)
}

/// One of them. The supervisor of a lost pod goes to `lost`.
fn read_one(state_dir: &StateDir, meta: PodMeta, lost: &mut Vec<(i32, u64)>) -> io::Result<PodRecord> {
    let folder = state_dir.pod(&meta.uid);
    if !folder.has_plan()? {
        return Ok(PodRecord::waiting(meta));
    }
    let record = |meta, status, supervisor, lost_at| PodRecord {
        meta,
        status,
        supervisor,
        lost_at,
        trouble: None,
        pending: None,
        owner: None,
    };
    let status = match folder.status() {
        // A pod whose supervisor has written nothing is created anew under another uid. If that supervisor is only late,
        // it finds nothing to run.
        Ok(None) if folder.remove_unless_begun()? => {
            let pod = PodRecord::waiting(PodMeta { uid: super::uid(), ..meta });
            state_dir.pod(&pod.meta.uid).begin()?;
            pod.save(state_dir)?;
            return Ok(pod);
        }
        // The supervisor has written it meanwhile.
        Ok(None) => folder.status(),
        status => status,
    };
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            let supervisor = crate::proc::supervisor_of(state_dir.path(), &meta.uid);
            tracing::error!(
                %error, pod = meta.desired.name,
                "the status of a pod cannot be read; {}",
                if supervisor.is_some() { "its supervisor runs, and writes it anew" } else { "the pod is lost" }
            );
            let lost_at = supervisor.is_none().then(now);
            return Ok(record(meta, None, supervisor, lost_at));
        }
    };
    let reported = status.as_ref().map(|status| (status.supervisor, status.phase.is_over()));
    let supervisor = reported.map(|(supervisor, _)| supervisor).filter(|supervisor| crate::proc::is_alive(*supervisor));
    let mut lost_at = None;
    if let (None, Some((dead, false))) = (supervisor, reported) {
        lost.push(dead);
        lost_at = Some(now());
    }
    Ok(record(meta, status, supervisor, lost_at))
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
            is_limited: false,
            memory: None,
            place: None,
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
    fn a_pod_whose_supervisor_is_lost_has_failed_in_any_phase() {
        use status::PodPhase::{Pending, Running, Succeeded};
        for phase in [None, Some(Pending), Some(Running)] {
            let observed = pod(None, phase, None).observe();
            assert_eq!(
                (observed.phase, observed.end.pod_reason.as_deref()),
                (PodPhase::Failed, Some("NodeLost")),
                "{phase:?}"
            );
            assert!(!pod(Some((1, 1)), phase, None).observe().has_ended());
        }
        assert_eq!(pod(None, Some(Succeeded), None).phase(), PodPhase::Succeeded);
    }

    #[test]
    fn a_pod_that_was_lost_before_its_deletion_was_not_taken_away() {
        let mut pod = pod(None, Some(status::PodPhase::Running), None);
        pod.meta.deleting_since = Some(UnixTime::from_secs(2));
        let mut was_taken_away = |lost_at| {
            pod.lost_at = Some(UnixTime::from_secs(lost_at));
            pod.pod_run().taken_away
        };
        assert!(!was_taken_away(1) && was_taken_away(3));
    }

    #[test]
    fn a_pod_that_was_told_to_end_keeps_that_reason_whatever_its_exit_code() {
        let observed = pod(None, Some(status::PodPhase::Failed), Some("NodeShutdown")).observe();
        assert_eq!(observed.end.pod_reason.as_deref(), Some("NodeShutdown"));
    }
}
