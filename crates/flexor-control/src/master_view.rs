//! What a job's master learns from the controller: the pods that may join the world, the parameter servers, and how many
//! of each are expected, and what bounds the size of a job that sizes itself.
//!
//! The master feed sends this whole picture on every new stream and after each change. It must not be sent before all
//! pods of the job are known: the master takes a worker that is missing in it for lost.

#[cfg(test)]
mod tests;

use flexor_engine::controller::{JobStatus, ObservedPlan, ObservedPod};
use flexor_model::{Job, RoleKind};
use flexor_wire::master::v1 as wire;

use crate::sizing_view::{Machines, allotment_of, sizing_for_master};

/// The message for the master of a job, of which these pods and plans exist.
pub fn observed_by_master(
    job: &Job,
    status: &JobStatus,
    pods: &[ObservedPod],
    plans: &[ObservedPlan],
    machines: &Machines,
) -> wire::Observed {
    let sizing = sizing_for_master(job, status, pods, plans, machines);
    let view = View { job, status, pods, machines: sizing.is_some().then_some(machines) };
    let workers = view.of_kind(RoleKind::Worker);
    let servers = view.of_kind(RoleKind::ParameterServer);
    let chiefs = view.of_kind(RoleKind::Chief);
    let has_servers = job.roles.iter().any(|role| role.kind == RoleKind::ParameterServer);
    wire::Observed {
        expected: Some(workers.expected),
        expected_servers: has_servers.then_some(servers.expected),
        workers: workers.pods.iter().cloned().chain(chiefs.pods).collect(),
        pods: workers.pods,
        servers: servers.pods,
        sizing,
        ..wire::Observed::default()
    }
}

struct View<'a> {
    job: &'a Job,
    status: &'a JobStatus,
    pods: &'a [ObservedPod],
    /// Set where the master sizes the job.
    machines: Option<&'a Machines>,
}

/// The pods of the roles of one kind.
struct OfKind {
    /// Those that nothing keeps from starting.
    pods: Vec<wire::Pod>,
    /// The target replicas, less those that are kept from starting: the world need not wait for these.
    expected: u32,
}

impl View<'_> {
    fn of_kind(&self, kind: RoleKind) -> OfKind {
        let roles = || self.job.roles.iter().filter(|role| role.kind == kind);
        let of_kind = self.pods.iter().filter(|pod| roles().any(|role| role.name == pod.role));
        let (mut blocked, startable): (Vec<&ObservedPod>, Vec<&ObservedPod>) =
            of_kind.partition(|pod| pod.pending.is_some());
        // The successor of a migration is not among the target replicas.
        blocked.retain(|pod| !self.status.is_successor(&(pod.role.clone(), pod.rank, pod.id)));
        let targets = roles().filter_map(|role| self.status.targets.get(&role.name));
        let target = targets.map(|target| target.replicas).sum::<u32>();
        OfKind {
            pods: startable.into_iter().map(|pod| self.message(pod)).collect(),
            expected: target.saturating_sub(u32::try_from(blocked.len()).unwrap_or(u32::MAX)),
        }
    }

    fn message(&self, pod: &ObservedPod) -> wire::Pod {
        let role = self.job.roles.iter().find(|role| role.name == pod.role);
        let sized = role.zip(self.machines);
        wire::Pod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            role: pod.role.to_string(),
            phase: format!("{:?}", pod.phase),
            deleting: pod.deleting,
            allotment: sized.map(|(role, machines)| allotment_of(self.job, self.status, role, pod, machines)),
            leaving: self.status.is_leaving(&(pod.role.clone(), pod.rank, pod.id)),
        }
    }
}
