//! What fault injection needs of the cluster: the pod in a slot, the fault file of a master, and events about faults.
//!
//! Which faults are injected, and when, is [`crate::chaos`]'s.

use std::path::{Path, PathBuf};

use flexor_engine::Cause;
use flexor_model::{Role, RoleKind};

use super::{Cluster, JobKey, PodRecord, PsClusterStatus};
use crate::chaos::SlotRef;
use crate::pods::plan::PodPlan;

/// Lets the master in a pod read a file of faults.
pub(super) fn let_follow(plan: &mut PodPlan, file: &Path) {
    for container in &mut plan.containers {
        container.env.insert(flexor_model::env::FAULTS.name.to_owned(), file.display().to_string());
    }
}

impl Cluster {
    /// The pod that fills a slot and is not being deleted.
    pub(crate) fn pod_in(&self, slot: &SlotRef) -> Option<PodRecord> {
        let state = self.lock();
        let fills = |pod: &&PodRecord| {
            let meta = &pod.meta;
            meta.job == slot.job
                && meta.desired.role == slot.role
                && meta.desired.rank == slot.rank
                && !pod.is_deleting()
        };
        state.pods.values().find(fills).cloned()
    }

    /// Whether this is the slot of a parameter server whose partitions have backups.
    pub(crate) fn is_replicated(&self, slot: &SlotRef) -> bool {
        let state = self.lock();
        let Some(record) = state.jobs.get(&slot.job) else { return false };
        let is_server = |role: &Role| role.name == slot.role && role.kind == RoleKind::ParameterServer;
        record.job.ps_replication_factor > 1 && record.job.roles.iter().any(is_server)
    }

    /// The parameter servers of a job, once its master has reported them.
    pub(crate) fn servers_of(&self, job: &JobKey) -> Option<PsClusterStatus> {
        self.lock().jobs.get(job)?.training.as_ref()?.servers.clone()
    }

    /// The file from which the master of a job reads its faults.
    pub(crate) fn faults_file(&self, job: &JobKey) -> Option<PathBuf> {
        self.lock().jobs.get(job).map(|record| self.state_dir().faults(&record.uid.to_string()))
    }

    /// Records an event about a fault. One that is about no job is recorded for each of them.
    pub(crate) fn record_fault(&self, job: Option<&JobKey>, pod: Option<String>, cause: Cause) {
        let mut state = self.lock();
        let jobs: Vec<JobKey> = job.map_or_else(|| state.jobs.keys().cloned().collect(), |job| vec![job.clone()]);
        for job in jobs {
            state.record_event(&job, pod.clone(), cause.clone());
        }
        drop(state);
        self.publish();
    }

    /// Ends injected write faults.
    pub(crate) fn end_failing_writes(&self) {
        if let Err(error) = self.state_dir().write_faults().end() {
            tracing::error!(%error, "injected write faults cannot be ended; remove {}", self.state_dir().full().display());
        }
        self.notify();
    }
}
