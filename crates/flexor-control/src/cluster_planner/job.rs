//! A job as the planner sees it: ranges instead of targets, and what a pod of each role needs.

use std::collections::{BTreeMap, BTreeSet};

use flexor_engine::controller::{JobAssignment, JobStatus, Planning};
use flexor_model::{Job, MOST_REPLICAS, Quantity, Rank, Reason, Role, RoleKind, Sizing, UnixTime, requests_of};
use flexor_sched::{JobKey, PodShape, Promise, SizedJob, SizedRole, TaintEffect, Toleration};
use serde_json::Value;

/// A job that the planner sizes, or holds until it fits.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedJob {
    pub sized: SizedJob,
    /// The promises in its status, for a planner that sees it for the first time.
    pub promised: Vec<Promise>,
    /// Why its pods cannot be created, if the API server refuses them.
    pub refused: Option<String>,
}

/// Whether the cluster's planner sizes the job.
pub fn may_be_planned(job: &Job, status: &JobStatus) -> bool {
    job.sizing == Sizing::Cluster && !job.suspended && !status.phase.is_over()
}

/// Who decides about the replicas of a job, with what is assigned to it.
pub fn planning_of<'a>(job: &Job, status: &JobStatus, assignment: Option<&'a JobAssignment>) -> Planning<'a> {
    match assignment {
        _ if job.sizing != Sizing::Cluster || status.phase.is_over() => Planning::Unplanned,
        Some(assignment) if !job.suspended => Planning::Assigned(assignment),
        Some(_) | None => Planning::Undecided,
    }
}

/// The job for the planner. `render` makes a pod of a role, as it would be created.
pub fn planned_job(
    key: &JobKey,
    job: &Job,
    status: &JobStatus,
    (created, priority): (UnixTime, i32),
    render: impl Fn(&Role) -> Value,
) -> PlannedJob {
    let ceiling = Ceiling::of(job);
    let mut promised = Vec::new();
    let roles = job.roles.iter().map(|role| {
        let target = status.targets.get(&role.name);
        for (rank, node) in target.into_iter().flat_map(|target| &target.promised) {
            let (job, role, node) = (key.clone(), role.name.clone(), node.as_str().into());
            promised.push(Promise { job, role, rank: *rank, node });
        }
        let (min, max) = range(role, status, &ceiling);
        SizedRole {
            name: role.name.clone(),
            min,
            max,
            pod: shape(&render(role)),
            target: target.map_or(0, |target| target.replicas),
            finished: finished(role, status),
        }
    });
    let roles: Vec<SizedRole> = roles.collect();
    // A program that has ended somewhere has no work for new pods.
    let growth_paused = roles.iter().any(|role| !role.finished.is_empty());
    let refused = status.cause.as_ref().filter(|cause| cause.reason == Reason::CreateRefused);
    let refused = refused.map(|cause| cause.message.clone());
    PlannedJob { sized: SizedJob { key: key.clone(), priority, created, roles, growth_paused }, promised, refused }
}

/// The least and the most replicas. Only workers are elastic, and only until a person decides.
fn range(role: &Role, status: &JobStatus, ceiling: &Ceiling) -> (u32, u32) {
    if let Some(wanted) = status.targets.get(&role.name).and_then(|target| target.wanted) {
        return (wanted, wanted);
    }
    match role.size.automatically().filter(|_| role.kind == RoleKind::Worker) {
        Some(range) => {
            let most = range.max().unwrap_or(MOST_REPLICAS).min(ceiling.most(role));
            (range.min(), most.max(range.min()))
        }
        None => (role.size.initial(), role.size.initial()),
    }
}

fn finished(role: &Role, status: &JobStatus) -> BTreeSet<Rank> {
    let slots = status.roles.get(&role.name).into_iter().flat_map(|role| &role.slots);
    slots.filter(|(_, slot)| slot.end.is_some()).map(|(rank, _)| *rank).collect()
}

/// What the workers of a job may use together, in billionths of each resource.
struct Ceiling(Vec<(String, i128)>);

impl Ceiling {
    /// What the job's ceiling leaves beside its other roles.
    fn of(job: &Job) -> Self {
        let others = job.roles.iter().filter(|role| role.kind != RoleKind::Worker && role.kind != RoleKind::Master);
        let left = job.ceiling.iter().map(|(name, ceiling)| {
            let taken: i128 = others
                .clone()
                .map(|role| {
                    let one = role.template.requests().get(name).map_or(0, Quantity::billionths);
                    one * i128::from(role.size.initial())
                })
                .sum();
            (name.to_owned(), ceiling.billionths().saturating_sub(taken).max(0))
        });
        Self(left.collect())
    }

    fn most(&self, role: &Role) -> u32 {
        let requests = role.template.requests();
        let fit = self.0.iter().filter_map(|(name, ceiling)| {
            let one = requests.get(name).map(Quantity::billionths).filter(|one| *one > 0)?;
            Some(u32::try_from(ceiling / one).unwrap_or(u32::MAX))
        });
        fit.min().unwrap_or(u32::MAX)
    }
}

/// What the scheduler checks of a pod.
fn shape(pod: &Value) -> PodShape {
    let spec = &pod["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pair = |(key, value): (&String, &Value)| Some((key.clone(), text(value)?));
    let node_selector: BTreeMap<String, String> =
        spec["nodeSelector"].as_object().into_iter().flatten().filter_map(pair).collect();
    let tolerations = spec["tolerations"].as_array().into_iter().flatten().map(|toleration| Toleration {
        key: text(&toleration["key"]),
        value: text(&toleration["value"]).filter(|_| toleration["operator"] != "Exists"),
        effect: toleration["effect"].as_str().and_then(effect),
    });
    PodShape { requests: requests_of(spec), node_selector, tolerations: tolerations.collect() }
}

fn effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}
