//! What harm on purpose needs of the cluster: who has a place now, where a master finds its faults, and a word about what
//! was done. Which harm is done, and when, is [`crate::chaos`]'s.

use std::path::{Path, PathBuf};

use flexor_engine::Because;
use flexor_model::{Role, RoleKind};

use super::{Cluster, JobKey, PodRecord, ServersStanding};
use crate::chaos::Seat;
use crate::pods::plan::PodPlan;

/// Has the master in a pod follow a file of faults.
pub(super) fn let_follow(plan: &mut PodPlan, file: &Path) {
    for container in &mut plan.containers {
        container.env.insert(flexor_model::env::FAULTS.name.to_owned(), file.display().to_string());
    }
}

impl Cluster {
    /// The pod that has a place and is not on its way out.
    pub(crate) fn pod_in(&self, seat: &Seat) -> Option<PodRecord> {
        let state = self.lock();
        let has_it = |pod: &&PodRecord| {
            let meta = &pod.meta;
            meta.job == seat.job && meta.wish.role == seat.role && meta.wish.rank == seat.rank && !pod.is_deleting()
        };
        state.pods.values().find(has_it).cloned()
    }

    /// Whether this is a place of a parameter server, in a job that keeps everything twice.
    pub(crate) fn is_kept_twice(&self, seat: &Seat) -> bool {
        let state = self.lock();
        let Some(record) = state.jobs.get(&seat.job) else { return false };
        let is_server = |role: &Role| role.name == seat.role && role.kind == RoleKind::ParameterServer;
        record.job.ps_copies > 1 && record.job.roles.iter().any(is_server)
    }

    /// How the parameter servers of a job stand, once its master has said so.
    pub(crate) fn servers_of(&self, job: &JobKey) -> Option<ServersStanding> {
        self.lock().jobs.get(job)?.standing.as_ref()?.servers.clone()
    }

    /// Where the master of a job looks for its faults.
    pub(crate) fn faults_file(&self, job: &JobKey) -> Option<PathBuf> {
        self.lock().jobs.get(job).map(|record| self.home().faults(&record.uid.to_string()))
    }

    /// An act was done, or missed. What is about no job is told with all of them.
    pub(crate) fn tell_of_act(&self, job: Option<&JobKey>, pod: Option<String>, because: Because) {
        let mut state = self.lock();
        let jobs: Vec<JobKey> = job.map_or_else(|| state.jobs.keys().cloned().collect(), |job| vec![job.clone()]);
        for job in jobs {
            state.tell(&job, pod.clone(), because.clone());
        }
        drop(state);
        self.announce();
    }

    /// What could not be written down can be now.
    pub(crate) fn end_failing_writes(&self) {
        if let Err(error) = self.home().write_faults().end() {
            tracing::error!(%error, "writes go on failing; remove {}", self.home().full().display());
        }
        self.ring();
    }
}
