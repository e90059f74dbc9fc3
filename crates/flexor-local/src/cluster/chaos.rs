//! What harm on purpose needs of the cluster: who has a place now, where a master finds its faults, and a word about what
//! was done. Which harm is done, and when, is [`crate::chaos`]'s.

use std::path::{Path, PathBuf};

use flexor_engine::Cause;
use flexor_model::{Role, RoleKind};

use super::{Cluster, JobKey, PodRecord, PsClusterStatus};
use crate::chaos::SlotRef;
use crate::pods::plan::PodPlan;

/// Has the master in a pod follow a file of faults.
pub(super) fn let_follow(plan: &mut PodPlan, file: &Path) {
    for container in &mut plan.containers {
        container.env.insert(flexor_model::env::FAULTS.name.to_owned(), file.display().to_string());
    }
}

impl Cluster {
    /// The pod that has a place and is not on its way out.
    pub(crate) fn pod_in(&self, slot: &SlotRef) -> Option<PodRecord> {
        let state = self.lock();
        let has_it = |pod: &&PodRecord| {
            let meta = &pod.meta;
            meta.job == slot.job
                && meta.desired.role == slot.role
                && meta.desired.rank == slot.rank
                && !pod.is_deleting()
        };
        state.pods.values().find(has_it).cloned()
    }

    /// Whether this is a place of a parameter server, in a job that keeps everything twice.
    pub(crate) fn is_kept_twice(&self, slot: &SlotRef) -> bool {
        let state = self.lock();
        let Some(record) = state.jobs.get(&slot.job) else { return false };
        let is_server = |role: &Role| role.name == slot.role && role.kind == RoleKind::ParameterServer;
        record.job.ps_replication_factor > 1 && record.job.roles.iter().any(is_server)
    }

    /// How the parameter servers of a job stand, once its master has said so.
    pub(crate) fn servers_of(&self, job: &JobKey) -> Option<PsClusterStatus> {
        self.lock().jobs.get(job)?.training.as_ref()?.servers.clone()
    }

    /// Where the master of a job looks for its faults.
    pub(crate) fn faults_file(&self, job: &JobKey) -> Option<PathBuf> {
        self.lock().jobs.get(job).map(|record| self.state_dir().faults(&record.uid.to_string()))
    }

    /// An act was done, or missed. What is about no job is told with all of them.
    pub(crate) fn record_fault(&self, job: Option<&JobKey>, pod: Option<String>, cause: Cause) {
        let mut state = self.lock();
        let jobs: Vec<JobKey> = job.map_or_else(|| state.jobs.keys().cloned().collect(), |job| vec![job.clone()]);
        for job in jobs {
            state.tell(&job, pod.clone(), cause.clone());
        }
        drop(state);
        self.publish();
    }

    /// What could not be written down can be now.
    pub(crate) fn end_failing_writes(&self) {
        if let Err(error) = self.state_dir().write_faults().end() {
            tracing::error!(%error, "writes go on failing; remove {}", self.state_dir().full().display());
        }
        self.notify();
    }
}
