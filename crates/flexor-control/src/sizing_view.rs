//! What a job's master needs to know to size the job: who may change which role, what pods may use, what bounds them, and
//! how far the master's last plan is.

use flexor_engine::controller::{
    JobStatus, ObservedPlan, ObservedPod, PlanPhase, PodPhase, SetBy, first_resources, planned_resources,
};
use flexor_engine::scaling::{Allotment, Ceiling};
use flexor_model::{Job, PlanOrigin, Quantity, Reason, Resources, Role, RoleKind, Sizing};
use flexor_wire::master::v1 as wire;

/// The place that a job's pods have.
#[derive(Debug, Clone, Default)]
pub struct Machines {
    /// Thousandths of a core that all pods share, where nothing limits a single pod.
    pub shared_millicores: Option<u64>,
    /// What the largest node has for pods; empty where it is not known.
    pub largest_node: Resources,
}

/// The message for the master of a job that sizes itself; `None` for other jobs.
pub(crate) fn sizing_for_master(
    job: &Job,
    status: &JobStatus,
    pods: &[ObservedPod],
    plans: &[ObservedPlan],
    machines: &Machines,
) -> Option<wire::Sizing> {
    let (workers, servers) = job.role(RoleKind::Worker).zip(job.role(RoleKind::ParameterServer))?;
    if job.sizing != Sizing::Job {
        return None;
    }
    let role = |role: &Role| scaled_role(job, status, role, machines);
    // The pods of chiefs are sent one by one, with those of the workers.
    let is_other = |role: &&Role| match role.kind {
        RoleKind::Worker | RoleKind::Chief | RoleKind::ParameterServer | RoleKind::Master => false,
        RoleKind::Evaluator | RoleKind::Other => true,
    };
    let others = job.roles.iter().filter(is_other).fold(Allotment::default(), |sum, role| {
        sum.plus_times(requests(job, status, role, machines), replicas(status, role))
    });
    Some(wire::Sizing {
        settled: is_settled(job, status, pods) && plans.iter().all(|plan| plan.status.phase.is_over()),
        workers: Some(role(workers)),
        servers: Some(role(servers)),
        servers_report: servers.keeps_parameters(),
        others: Some(allotment(others)),
        shared_millicores: machines.shared_millicores,
        ceiling: Some(bounds(&job.ceiling)),
        largest_pod: Some(bounds(&machines.largest_node)),
        plan: latest_automatic(job, plans),
    })
}

/// What a pod of a role may use; zero where nothing says it.
pub(crate) fn allotment_of(
    job: &Job,
    status: &JobStatus,
    role: &Role,
    pod: &ObservedPod,
    machines: &Machines,
) -> wire::Allotment {
    let slot = status.roles.get(&role.name).and_then(|slots| slots.slots.get(&pod.rank));
    let of_slot = slot.map(|slot| slot.resources.clone()).unwrap_or_default();
    let planned = planned_resources(job, status, role, &of_slot, &machines.largest_node);
    let main = role.template.main();
    let requests = main.requests().overlaid_by(&planned);
    let is_limited = first_resources(job, role, &machines.largest_node).is_some();
    let limits =
        if is_limited { requests.clone() } else { main.limits().or_more(&planned_below(&main.limits(), &planned)) };
    let mut may_use = requests.overlaid_by(&limits);
    if let Some(more) = slot.and_then(|slot| slot.more_memory) {
        may_use = may_use.or_more(&Resources::from_iter([("memory", more)]));
    }
    allotment(Allotment::from(&may_use))
}

/// Planned amounts of what the template limits: a limit below a request is raised to it.
fn planned_below(limits: &Resources, planned: &Resources) -> Resources {
    planned.iter().filter(|(name, _)| limits.get(name).is_some()).collect()
}

fn scaled_role(job: &Job, status: &JobStatus, role: &Role, machines: &Machines) -> wire::ScaledRole {
    let held_by = match status.targets.get(&role.name).map(|target| &target.set_by) {
        Some(SetBy::Edit) => "an edit of the job".to_owned(),
        Some(SetBy::Plan(plan)) => format!("the plan {plan}"),
        Some(SetBy::Spec | SetBy::Auto(_) | SetBy::Planner) | None => String::new(),
    };
    wire::ScaledRole {
        name: role.name.to_string(),
        replicas: replicas(status, role),
        automatic: role.size.automatically().map(|range| wire::Range { least: range.min(), most: range.max() }),
        held_by,
        pod: Some(allotment(requests(job, status, role, machines))),
    }
}

fn requests(job: &Job, status: &JobStatus, role: &Role, machines: &Machines) -> Allotment {
    let planned = planned_resources(job, status, role, &Resources::default(), &machines.largest_node);
    Allotment::from(&role.template.main().requests().overlaid_by(&planned))
}

fn replicas(status: &JobStatus, role: &Role) -> u32 {
    status.targets.get(&role.name).map_or(0, |target| target.replicas)
}

/// Whether every role has the pods that it should have, and all of them run.
fn is_settled(job: &Job, status: &JobStatus, pods: &[ObservedPod]) -> bool {
    let runs = |pod: &ObservedPod| pod.phase == PodPhase::Running && !pod.deleting;
    job.roles.iter().all(|role| {
        let of_role: Vec<&ObservedPod> = pods.iter().filter(|pod| pod.role == role.name).collect();
        let target = usize::try_from(replicas(status, role)).unwrap_or(usize::MAX);
        of_role.len() == target && of_role.into_iter().all(runs)
    })
}

fn latest_automatic(job: &Job, plans: &[ObservedPlan]) -> Option<wire::AutomaticPlan> {
    let automatic = plans.iter().filter(|plan| plan.plan.origin == PlanOrigin::Auto);
    let numbered = automatic.filter_map(|plan| Some((number_of(job, plan.plan.name.as_str())?, plan)));
    let (number, latest) = numbered.max_by_key(|(number, _)| *number)?;
    let is_short = latest.status.cause.as_ref().is_some_and(|cause| cause.reason == Reason::Unschedulable);
    let state = match latest.status.phase {
        PlanPhase::Pending | PlanPhase::Scaling => wire::automatic_plan::State::Open,
        PlanPhase::Succeeded => wire::automatic_plan::State::Succeeded,
        PlanPhase::Failed if is_short => wire::automatic_plan::State::NoRoom,
        PlanPhase::Failed => wire::automatic_plan::State::Failed,
    };
    Some(wire::AutomaticPlan { number, state: state.into() })
}

/// The name of a job's automatic plan.
pub fn automatic_plan_name(job: &str, number: u32) -> String {
    format!("{job}-auto-{number}")
}

fn number_of(job: &Job, plan: &str) -> Option<u32> {
    let number = plan.strip_prefix(job.name.as_str())?.strip_prefix("-auto-")?.parse().ok()?;
    (automatic_plan_name(job.name.as_str(), number) == plan).then_some(number)
}

fn allotment(of: Allotment) -> wire::Allotment {
    wire::Allotment { millicores: of.millicores, bytes: of.bytes }
}

fn bounds(of: &Resources) -> wire::Bounds {
    let Ceiling { millicores, bytes } = of.into();
    wire::Bounds { millicores, bytes }
}

/// Resources as manifests write them.
pub(crate) fn read_resources(written: impl IntoIterator<Item = (String, String)>) -> Option<Resources> {
    let read = |(name, text): (String, String)| Some((name, text.parse::<Quantity>().ok()?));
    written.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests;
