//! The invariants of one plan.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::Resources;
use proptest::prelude::*;

use crate::tests::fixture::*;
use crate::{ClusterPlan, JobKey, Location, Node, NodeName, Pod, PodSlot, Rule, SizedJob, SizedRole};

/// Billionths by resource.
type Amounts = BTreeMap<String, i128>;

pub(super) fn check_plan(world: &World, plan: &ClusterPlan) -> Result<(), TestCaseError> {
    sizes_are_in_range(world, plan)?;
    base_is_no_victim(world, plan)?;
    gangs_start_whole(world, plan)?;
    held_jobs_get_nothing(plan)?;
    nodes_are_not_overcommitted(world, plan)?;
    reasons_add_up(plan)?;
    prop_assert!(plan.swaps <= world.swaps);
    Ok(())
}

fn role<'a>(world: &'a World, job: &JobKey, role: &flexor_model::RoleName) -> (&'a SizedJob, &'a SizedRole) {
    let job = world.jobs.iter().find(|found| found.key == *job).unwrap();
    (job, job.roles.iter().find(|found| found.name == *role).unwrap())
}

fn pod<'a>(world: &'a World, owner: &PodSlot) -> Option<&'a Pod> {
    world.pods.iter().find(|pod| pod.owner.as_ref() == Some(owner) && !pod.terminating)
}

fn sizes_are_in_range(world: &World, plan: &ClusterPlan) -> Result<(), TestCaseError> {
    for decision in &plan.roles {
        let (_, role) = role(world, &decision.job, &decision.role);
        prop_assert!(decision.to <= role.max, "{} of {}", decision, role.max);
        for creation in &decision.create {
            prop_assert!(creation.rank.0 < role.max && !role.finished.contains(&creation.rank));
            prop_assert_eq!(creation.base, creation.rank.0 < role.min);
            let owner = PodSlot { job: decision.job.clone(), role: decision.role.clone(), rank: creation.rank };
            let moved = decision.remove.iter().any(|removal| removal.rank == creation.rank);
            prop_assert!(
                moved || world.pods.iter().all(|pod| pod.owner.as_ref() != Some(&owner)),
                "{:?} is in use",
                owner
            );
        }
    }
    Ok(())
}

fn base_is_no_victim(world: &World, plan: &ClusterPlan) -> Result<(), TestCaseError> {
    for decision in &plan.roles {
        let (_, role) = role(world, &decision.job, &decision.role);
        for removal in &decision.remove {
            let owner = PodSlot { job: decision.job.clone(), role: decision.role.clone(), rank: removal.rank };
            let pod = pod(world, &owner);
            prop_assert!(pod.is_some(), "{:?} does not exist", owner);
            let is_bound = matches!(pod.unwrap().location, Location::Bound(_));
            prop_assert!(removal.rank.0 >= role.min || (!is_bound && removal.rule == Rule::PlaceGone));
        }
    }
    Ok(())
}

/// A plan that creates a base pod completes the base.
fn gangs_start_whole(world: &World, plan: &ClusterPlan) -> Result<(), TestCaseError> {
    let starts = plan.roles.iter().filter(|decision| decision.create.iter().any(|pod| pod.base));
    let starting: BTreeSet<&JobKey> = starts.map(|decision| &decision.job).collect();
    for job in starting {
        prop_assert!(plan.shortage(job).is_none());
        let job = world.jobs.iter().find(|found| found.key == *job).unwrap();
        for role in &job.roles {
            let decision = plan.role(&job.key, &role.name);
            for rank in (0..role.min).map(flexor_model::Rank) {
                let owner = PodSlot { job: job.key.clone(), role: role.name.clone(), rank };
                let created = decision.is_some_and(|d| d.create.iter().any(|pod| pod.rank == rank));
                let removed = decision.is_some_and(|d| d.remove.iter().any(|pod| pod.rank == rank));
                let there = pod(world, &owner).is_some() && !removed;
                prop_assert!(created || there || role.finished.contains(&rank), "{:?} is missing", owner);
            }
        }
    }
    Ok(())
}

fn held_jobs_get_nothing(plan: &ClusterPlan) -> Result<(), TestCaseError> {
    for held in &plan.held {
        let of_job = plan.roles.iter().filter(|decision| decision.job == held.job);
        prop_assert!(of_job.flat_map(|decision| &decision.create).next().is_none());
        prop_assert!(plan.promises_of(&held.job).next().is_none());
    }
    Ok(())
}

/// The plan creates pods only into room that is free and not promised, and promises only room that will be free.
fn nodes_are_not_overcommitted(world: &World, plan: &ClusterPlan) -> Result<(), TestCaseError> {
    let is_removed = |pod: &Pod| {
        let owner = pod.owner.as_ref();
        let decision = owner.and_then(|owner| Some((owner, plan.role(&owner.job, &owner.role)?)));
        decision.is_some_and(|(owner, d)| d.remove.iter().any(|removal| removal.rank == owner.rank))
    };
    for node in &world.nodes {
        let (mut now, mut after) = (Amounts::new(), Amounts::new());
        for pod in &world.pods {
            let (is_bound, removed) = (matches!(pod.location, Location::Bound(_)), is_removed(pod));
            if location(pod) == Some(&node.name) {
                if is_bound || !(removed || pod.terminating) {
                    add(&mut now, &pod.requests);
                }
                if !(removed || pod.terminating) {
                    add(&mut after, &pod.requests);
                }
            }
        }
        let mut asked: BTreeSet<String> = BTreeSet::new();
        let mut created = Vec::new();
        for decision in &plan.roles {
            let (_, role) = role(world, &decision.job, &decision.role);
            for _ in decision.create.iter().filter(|creation| creation.node == node.name) {
                add(&mut now, &role.pod.requests);
                add(&mut after, &role.pod.requests);
                created.push(role);
            }
        }
        for promise in plan.promises.iter().filter(|promise| promise.node == node.name) {
            let (_, role) = role(world, &promise.job, &promise.role);
            add(&mut after, &role.pod.requests);
            asked.extend(names(&role.pod.requests));
            prop_assert!(accepts(node, role));
        }
        for role in &created {
            prop_assert!(accepts(node, role), "{} refuses {}", node.name, role.name);
            asked.extend(names(&role.pod.requests));
            for resource in names(&role.pod.requests) {
                prop_assert!(fits(node, &now, &resource), "{} has too little {} now", node.name, resource);
            }
        }
        for resource in asked {
            prop_assert!(fits(node, &after, &resource), "{} promised too much {}", node.name, resource);
        }
    }
    let known: BTreeSet<&NodeName> = world.nodes.iter().map(|node| &node.name).collect();
    prop_assert!(plan.roles.iter().flat_map(|d| &d.create).all(|creation| known.contains(&creation.node)));
    Ok(())
}

fn location(pod: &Pod) -> Option<&NodeName> {
    match &pod.location {
        Location::Unassigned => None,
        Location::Assigned(node) | Location::Bound(node) => Some(node),
    }
}

fn names(requests: &Resources) -> Vec<String> {
    let positive = requests.iter().filter(|(_, quantity)| quantity.billionths() > 0);
    positive.map(|(name, _)| name.to_owned()).chain(["pods".to_owned()]).collect()
}

fn add(sum: &mut Amounts, requests: &Resources) {
    for (name, quantity) in requests.iter() {
        *sum.entry(name.to_owned()).or_default() += quantity.billionths();
    }
    *sum.entry("pods".to_owned()).or_default() += 1_000_000_000;
}

fn fits(node: &Node, taken: &Amounts, resource: &str) -> bool {
    let taken = taken.get(resource).copied().unwrap_or(0);
    match node.allocatable.get(resource) {
        Some(all) => taken <= all.billionths(),
        None => resource == "pods",
    }
}

fn accepts(node: &Node, role: &SizedRole) -> bool {
    let selected = role.pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    node.schedulable && selected && (node.taints.is_empty() || !role.pod.tolerations.is_empty())
}

fn reasons_add_up(plan: &ClusterPlan) -> Result<(), TestCaseError> {
    for decision in &plan.roles {
        let sum: i64 = decision.changes().iter().map(|(_, pods)| pods).sum();
        prop_assert_eq!(sum, i64::from(decision.to) - i64::from(decision.from));
    }
    Ok(())
}

/// With 1-core pods only: no core is free while somebody could grow, and nobody is a whole pod above equal fulfilment
/// while another is below it.
pub(super) fn is_water_filling(world: &World) -> Result<(), TestCaseError> {
    let cores: i128 = world.nodes.iter().map(|node| node.allocatable.cpu().unwrap().billionths() / 1_000_000_000).sum();
    let sizes: Vec<(u32, &SizedRole)> =
        world.jobs.iter().map(|job| (world.size(job.key.as_str()), &job.roles[0])).collect();
    let used: i128 = sizes.iter().map(|(size, _)| i128::from(*size)).sum();
    prop_assert!(used == cores || sizes.iter().all(|(size, role)| *size == role.max), "{used} of {cores}");
    for (size, role) in &sizes {
        for (other, others) in &sizes {
            if *size > role.min && *other < others.max {
                // One pod fewer here and one more there would not be more equal.
                let mine = (2 * u64::from(size - role.min) - 1) * u64::from(others.max - others.min);
                let theirs = (2 * u64::from(other - others.min) + 1) * u64::from(role.max - role.min);
                prop_assert!(mine <= theirs, "{size} and {other}");
            }
        }
    }
    Ok(())
}
