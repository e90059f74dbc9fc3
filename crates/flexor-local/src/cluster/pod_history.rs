//! The history of pods: one run for each pod that exists or existed.
//!
//! A slot may be filled again under the same name, so one name may have many runs. People and reports read the history;
//! nothing is decided by it. It is not saved: a process that takes a cluster over has it from then on.

use flexor_engine::controller::PodPhase;
use flexor_engine::nodes::ProgramExit;
use flexor_model::UnixTime;

use super::{Cluster, JobKey, PodRecord, State, now};

/// The most runs of removed pods that are kept.
const MOST_REMOVED: usize = 10_000;

/// One run of a pod, told apart by its uid.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRun {
    pub job: JobKey,
    /// The name of the pod.
    pub pod: String,
    pub uid: String,
    pub role: String,
    /// The last phase.
    pub phase: PodPhase,
    pub created_at: UnixTime,
    /// When its main program started.
    pub started_at: Option<UnixTime>,
    /// When it ended or was removed.
    pub ended_at: Option<UnixTime>,
    /// It was deleted before it ended.
    pub taken_away: bool,
    /// Of its main program.
    pub exit_code: Option<i32>,
    /// Such as `Error` or `OOMKilled`.
    pub reason: Option<String>,
}

impl Cluster {
    /// All runs: those of removed pods first, each part in the order of creation.
    pub fn pod_history(&self) -> Vec<PodRun> {
        let state = self.lock();
        let mut present: Vec<PodRun> = state.pods.values().map(PodRecord::pod_run).collect();
        present.sort_by(|a, b| (a.created_at, &a.pod).cmp(&(b.created_at, &b.pod)));
        state.removed.iter().cloned().chain(present).collect()
    }
}

impl State {
    /// Keeps the run of a pod that is removed.
    pub(super) fn remember(&mut self, pod: &PodRecord) {
        if self.removed.len() == MOST_REMOVED {
            self.removed.pop_front();
        }
        let pod_run = pod.pod_run();
        self.removed.push_back(PodRun { ended_at: pod_run.ended_at.or_else(|| Some(now())), ..pod_run });
    }
}

impl PodRecord {
    pub(super) fn pod_run(&self) -> PodRun {
        let observed = self.observe();
        let exit_code = observed.end.exit.and_then(|exit| match exit {
            ProgramExit::Code(code) => Some(code),
            ProgramExit::Signal(_) => None,
        });
        let (deleted_at, ended_at) = (self.meta.deleting_since, observed.finished_at.or(self.lost_at));
        PodRun {
            taken_away: deleted_at.is_some_and(|deleted_at| ended_at.is_none_or(|end| deleted_at <= end)),
            job: self.meta.job.clone(),
            pod: observed.name,
            uid: observed.uid,
            role: observed.role.to_string(),
            phase: observed.phase,
            created_at: self.meta.created_at,
            started_at: observed.started_at,
            ended_at,
            exit_code,
            reason: observed.end.pod_reason.or(observed.end.container_reason),
        }
    }
}
