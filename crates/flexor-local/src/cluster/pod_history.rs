//! The lives of pods: those that are there, and those that are gone, which nobody could look at any more.
//!
//! A place of a job is filled again under the same name, so that one name may have many lives. It is for people and
//! reports; nothing is decided by it, and it is not written down: who takes a cluster over knows the lives from then on.

use flexor_engine::controller::PodPhase;
use flexor_engine::nodes::ProgramExit;
use flexor_model::UnixTime;

use super::{Cluster, JobKey, PodRecord, State, now};

/// How many of those that are gone are remembered.
const MOST_GONE: usize = 10_000;

/// One life of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodRun {
    /// Of which job.
    pub job: JobKey,
    /// The pod.
    pub pod: String,
    /// What tells this life from others.
    pub uid: String,
    /// Its role.
    pub role: String,
    /// How far it is, or was.
    pub phase: PodPhase,
    /// When it was made.
    pub created_at: UnixTime,
    /// When its program was started.
    pub started_at: Option<UnixTime>,
    /// When it ended, or was gone.
    pub ended_at: Option<UnixTime>,
    /// It ran, and was to go: somebody or something took it away.
    pub taken_away: bool,
    /// What its program ended with.
    pub exit_code: Option<i32>,
    /// In a word, such as `Error` or `OOMKilled`.
    pub reason: Option<String>,
}

impl Cluster {
    /// All lives, those that are gone first, each part in the order of their beginning.
    pub fn pod_history(&self) -> Vec<PodRun> {
        let state = self.lock();
        let mut here: Vec<PodRun> = state.pods.values().map(PodRecord::pod_run).collect();
        here.sort_by(|a, b| (a.created_at, &a.pod).cmp(&(b.created_at, &b.pod)));
        state.gone.iter().cloned().chain(here).collect()
    }
}

impl State {
    /// A pod is gone; its life is remembered.
    pub(super) fn remember(&mut self, pod: &PodRecord) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        let pod_run = pod.pod_run();
        self.gone.push_back(PodRun { ended_at: pod_run.ended_at.or_else(|| Some(now())), ..pod_run });
    }
}

impl PodRecord {
    pub(super) fn pod_run(&self) -> PodRun {
        let seen = self.seen();
        let exit_code = seen.end.exit.and_then(|exit| match exit {
            ProgramExit::Code(code) => Some(code),
            ProgramExit::Signal(_) => None,
        });
        let (was_to_go, ended_at) = (self.meta.deleting_since, seen.finished_at.or(self.lost_at));
        PodRun {
            taken_away: was_to_go.is_some_and(|since| ended_at.is_none_or(|end| since <= end)),
            job: self.meta.job.clone(),
            pod: seen.name,
            uid: seen.uid,
            role: seen.role.to_string(),
            phase: seen.phase,
            created_at: self.meta.created_at,
            started_at: seen.started_at,
            ended_at,
            exit_code,
            reason: seen.end.pod_reason.or(seen.end.container_reason),
        }
    }
}
