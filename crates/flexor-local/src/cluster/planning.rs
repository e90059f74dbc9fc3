//! The cluster's planner on a laptop: one node, whose CPUs all jobs share.
//!
//! Every round of the loop plans before the jobs are reconciled, so that an assignment is never older than what the
//! controller observes.

use std::sync::Arc;

use flexor_control::{ClusterPod, may_be_planned, planned_job};
use flexor_engine::controller::JobAssignment;
use flexor_model::{Quantity, Resources, requests_of};
use flexor_sched::{JobKey as PlannerKey, Location, Node, PodSlot};
use serde_json::json;

use super::driver::RoundOutcome;
use super::{Cluster, JobKey, JobRecord, PodRecord, State, now};

/// The name of the only node.
const NODE: &str = "localhost";

impl Cluster {
    /// Sizes the jobs that share the cluster.
    pub(super) fn plan(&self, outcome: &mut RoundOutcome) {
        let mut state = self.lock();
        let planned: Vec<_> = state.jobs.values().filter(|job| is_planned(job)).map(for_planner).collect();
        if planned.is_empty() {
            return;
        }
        let pods: Vec<ClusterPod> = state.pods.values().filter_map(|pod| state.for_planner(pod)).collect();
        let (changed, next_at) = state.planner.plan(&[self.node()], &pods, &planned, now());
        for job in &changed {
            let Some(assignment) = state.planner.assignment(job) else { continue };
            tracing::info!(job = job.as_str(), ?assignment, "plan");
        }
        if let Some(at) = next_at {
            outcome.requeue(at);
        }
    }

    /// What the pods of this machine may request together.
    fn node(&self) -> Node {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = self.0.options.cpus.unwrap_or_else(|| Quantity::whole(u32::try_from(cores).unwrap_or(1)));
        Node {
            name: NODE.into(),
            allocatable: [("cpu", cpus)].into_iter().collect(),
            labels: std::collections::BTreeMap::new(),
            taints: Vec::new(),
            schedulable: true,
        }
    }
}

impl State {
    /// What the planner has assigned to a job.
    pub(super) fn assignment(&self, job: &JobRecord) -> Option<Arc<JobAssignment>> {
        self.planner.assignment(&key(&job.key))
    }

    fn for_planner(&self, pod: &PodRecord) -> Option<ClusterPod> {
        let (desired, job) = (&pod.meta.desired, self.jobs.get(&pod.meta.job)?);
        let owner =
            is_planned(job).then(|| PodSlot { job: key(&job.key), role: desired.role.clone(), rank: desired.rank });
        let ended = pod.observe().has_ended();
        let waits = pod.pending.is_some();
        if owner.is_none() && (ended || waits) {
            return None;
        }
        Some(ClusterPod {
            uid: pod.meta.uid.clone(),
            requests: cpu_of(&requests_of(&pod.meta.rendered["spec"])),
            location: if waits { Location::Assigned(NODE.into()) } else { Location::Bound(NODE.into()) },
            terminating: pod.is_deleting(),
            ended,
            waits_since: waits.then_some(pod.meta.created_at),
            owner,
        })
    }
}

fn is_planned(job: &JobRecord) -> bool {
    may_be_planned(&job.job, &job.status) && !job.deleting
}

fn key(job: &JobKey) -> PlannerKey {
    job.to_string().into()
}

fn for_planner(job: &JobRecord) -> flexor_control::PlannedJob {
    let mut planned = planned_job(
        &key(&job.key),
        &job.job,
        &job.status,
        (job.created_at, 0),
        |role| json!({ "spec": role.template.json()["spec"] }),
    );
    for role in &mut planned.sized.roles {
        // One node has no labels to choose by, and nothing but CPUs is shared out.
        role.pod.requests = cpu_of(&role.pod.requests);
        role.pod.node_selector.clear();
    }
    planned
}

fn cpu_of(requests: &Resources) -> Resources {
    requests.cpu().map(|cpu| ("cpu", cpu)).into_iter().collect()
}
