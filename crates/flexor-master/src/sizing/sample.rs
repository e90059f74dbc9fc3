//! One second of a job, from what the controller shows and what workers and servers report.

use std::time::Duration;

use flexor_engine::scaling::{
    Allotment, AutomaticPlan, BatchTimes, Ceiling, PlanState, PodLoad, PodSample, Sample, ScaledRole, Servers,
};
use flexor_model::ReplicaRange;
use flexor_wire::master::v1 as wire;

use crate::job::Job;
use crate::training_status::accounted_batches;

/// The sample of a job; `None` for a job that does not size itself, until it has data, and for what cannot be read.
pub(super) fn of(job: &Job, observed: &wire::Observed) -> Option<Sample> {
    let sizing = observed.sizing.as_ref()?;
    let status = job.status();
    let servers = status.servers.as_ref();
    let are_servers_settled = servers.is_none_or(|servers| servers.settled && servers.unowned == 0);
    let worker = |pod: &wire::Pod| {
        let reported = job.with_reports(|reports| reports.loads.get(&pod.name).copied());
        pod_sample(pod, reported.map(|(at, load)| worker_load(at, &load)))
    };
    let server = |pod: &wire::Pod| {
        let reported = job.servers().last_load(&pod.name);
        pod_sample(pod, reported.map(|(at, load)| server_load(at, &load)))
    };
    let server_pods = match sizing.servers_report {
        true => Servers::Measured(running(&observed.servers).map(server).collect::<Option<_>>()?),
        false => Servers::Foreign,
    };
    Some(Sample {
        batches: accounted_batches(&status.datasets)?,
        steady: sizing.settled && are_servers_settled && !job.is_recovering(),
        workers: scaled_role(sizing.workers.as_ref()?)?,
        servers: scaled_role(sizing.servers.as_ref()?)?,
        worker_pods: running(&observed.workers).map(worker).collect::<Option<_>>()?,
        server_pods,
        others: allotment(sizing.others.as_ref()),
        machine: sizing.shared_millicores,
        ceiling: bounds(sizing.ceiling.as_ref()),
        largest_pod: bounds(sizing.largest_pod.as_ref()),
        plan: match &sizing.plan {
            Some(latest) => Some(plan(latest)?),
            None => None,
        },
    })
}

fn running(pods: &[wire::Pod]) -> impl Iterator<Item = &wire::Pod> {
    pods.iter().filter(|pod| pod.phase == "Running" && !pod.deleting)
}

fn pod_sample(pod: &wire::Pod, load: Option<PodLoad>) -> Option<PodSample> {
    Some(PodSample {
        name: pod.name.parse().ok()?,
        uid: pod.uid.clone(),
        role: pod.role.parse().ok()?,
        allotment: allotment(pod.allotment.as_ref()),
        load,
    })
}

fn worker_load(at: Duration, load: &wire::WorkerLoad) -> PodLoad {
    let times = BatchTimes {
        read: Duration::from_micros(load.read_us),
        pull: Duration::from_micros(load.pull_us),
        compute: Duration::from_micros(load.compute_us),
        push: Duration::from_micros(load.push_us),
        acknowledge: Duration::from_micros(load.acknowledge_us),
    };
    PodLoad { at, cpu: Duration::from_micros(load.cpu_us), bytes: load.memory, times }
}

fn server_load(at: Duration, load: &wire::ServerLoad) -> PodLoad {
    PodLoad { at, cpu: Duration::from_micros(load.cpu_us), bytes: load.memory, times: BatchTimes::default() }
}

fn scaled_role(role: &wire::ScaledRole) -> Option<ScaledRole> {
    let automatic = role.automatic.as_ref().map(|range| match range.most {
        Some(most) => ReplicaRange::new(range.least, most).ok(),
        None => Some(ReplicaRange::at_least(range.least)),
    });
    Some(ScaledRole {
        name: role.name.parse().ok()?,
        replicas: role.replicas,
        automatic: automatic.flatten(),
        held_by: Some(role.held_by.clone()).filter(|held_by| !held_by.is_empty()),
        pod: allotment(role.pod.as_ref()),
    })
}

fn allotment(of: Option<&wire::Allotment>) -> Allotment {
    of.map_or_else(Allotment::default, |of| Allotment { millicores: of.millicores, bytes: of.bytes })
}

fn bounds(of: Option<&wire::Bounds>) -> Ceiling {
    of.map_or_else(Ceiling::default, |of| Ceiling { millicores: of.millicores, bytes: of.bytes })
}

/// `None` if it is in a state that this version does not know: then nothing is decided.
fn plan(plan: &wire::AutomaticPlan) -> Option<AutomaticPlan> {
    use wire::automatic_plan::State;
    let state = match State::try_from(plan.state).ok()? {
        State::Open => PlanState::Open,
        State::Succeeded => PlanState::Succeeded,
        State::NoRoom => PlanState::NoRoom,
        State::Failed => PlanState::Failed,
        State::Unspecified => return None,
    };
    Some(AutomaticPlan { number: plan.number, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_in_an_unknown_state_is_not_taken_for_one_that_failed() {
        let read = |state| plan(&wire::AutomaticPlan { number: 7, state }).map(|plan| plan.state);
        assert_eq!(read(wire::automatic_plan::State::Failed.into()), Some(PlanState::Failed));
        for unknown in [wire::automatic_plan::State::Unspecified.into(), 99] {
            assert_eq!(read(unknown), None);
        }
    }
}
