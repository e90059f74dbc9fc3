//! Jobs that the cluster's planner sizes: their pods are those of the assignment, and no others.

use std::collections::BTreeMap;

use flexor_model::{IdRule, Rank, Reason, RoleName};

use super::world::{World, name};
use crate::Cause;
use crate::controller::*;

/// A job that is planned, before the first plan.
fn undecided() -> World {
    let mut world = World::of(2, IdRule::Rank);
    world.planned = Some(None);
    world
}

/// The planner assigns these ranks to the workers and the master, each on a node.
fn assign(world: &mut World, workers: &[u32], message: &str) {
    let has = |role: &str, rank: u32| {
        let is_it = |pod: &&ObservedPod| pod.role == name(role) && pod.rank == Rank(rank) && !pod.deleting;
        world.pods.iter().any(|pod| is_it(&pod))
    };
    let role = |role: &str, ranks: &[u32], base: u32| {
        let place = |rank: &u32| (Rank(*rank), Place { node: format!("n{rank}"), is_base: *rank < base });
        let assigned = RoleAssignment {
            ranks: ranks.iter().copied().map(Rank).collect(),
            places: ranks.iter().filter(|rank| !has(role, **rank)).map(place).collect(),
            cause: Some(Cause::new(Reason::SizeFromPlanner, message)),
            ..RoleAssignment::default()
        };
        (name(role), assigned)
    };
    let roles: BTreeMap<RoleName, RoleAssignment> = [role("master", &[0], 1), role("worker", workers, 2)].into();
    world.planned = Some(Some(JobAssignment { held: None, roles }));
}

fn ranks(world: &World) -> Vec<u32> {
    let workers = world.pods.iter().filter(|pod| pod.role == name("worker") && !pod.deleting);
    let mut ranks: Vec<u32> = workers.map(|pod| pod.rank.0).collect();
    ranks.sort_unstable();
    ranks
}

#[test]
fn nothing_is_created_before_the_planner_has_decided() {
    let mut world = undecided();
    world.settle();
    assert!(world.pods.is_empty());
    assert_eq!(world.status.targets[&name("worker")].cause.reason, Reason::JobHeld);
    assign(&mut world, &[0, 1, 2], "worker 0 -> 3: +3 room is free");
    world.settle();
    assert_eq!((ranks(&world), world.status.phase), (vec![0, 1, 2], Phase::Running));
    let target = &world.status.targets[&name("worker")];
    assert_eq!((target.replicas, &target.set_by), (3, &SetBy::Planner));
    let places: Vec<_> = world.desired_pods.iter().filter_map(|pod| pod.place.clone()).collect();
    assert_eq!(places.iter().filter(|place| place.is_base).count(), 3, "the master and two workers: {places:?}");
}

#[test]
fn a_held_job_has_no_pods_and_says_why() {
    let mut world = undecided();
    let held = Cause::new(Reason::JobHeld, "default/j needs 203 cores; 137 free, 0 could be freed");
    world.planned = Some(Some(JobAssignment { held: Some(held.clone()), roles: BTreeMap::new() }));
    world.settle();
    assert!(world.pods.is_empty());
    assert_eq!((world.status.phase, world.status.cause.as_ref()), (Phase::Pending, Some(&held)));
    assert_eq!(world.reasons().iter().filter(|reason| **reason == Reason::JobHeld).count(), 1, "one event");
    assign(&mut world, &[0, 1], "worker 0 -> 2: +2 the base fits");
    world.settle();
    assert_eq!((ranks(&world), world.status.phase), (vec![0, 1], Phase::Running));
    assert_ne!(world.status.cause.as_ref().map(|cause| cause.reason), Some(Reason::JobHeld));
}

#[test]
fn pods_are_given_up_by_rank_and_others_stay() {
    let mut world = undecided();
    assign(&mut world, &[0, 1, 2, 3, 4], "all");
    world.settle();
    let uids = |world: &World| -> BTreeMap<u32, String> {
        world.pods.iter().filter(|pod| pod.role == name("worker")).map(|pod| (pod.rank.0, pod.uid.clone())).collect()
    };
    let before = uids(&world);
    assign(&mut world, &[0, 1, 4], "worker 5 -> 3: -2 default/other needs room for its base");
    world.settle();
    assert_eq!(ranks(&world), [0, 1, 4]);
    assert!(uids(&world).iter().all(|(rank, uid)| before[rank] == *uid));
    let target = &world.status.targets[&name("worker")];
    assert_eq!(target.ranks().map(|rank| rank.0).collect::<Vec<_>>(), [0, 1, 4]);
    let last = world.status.size_changes.last().unwrap();
    assert_eq!((last.from, last.to), (5, 3));
    // The status is stored and read back as it is.
    let json = serde_json::to_string(&world.status).unwrap();
    assert_eq!(serde_json::from_str::<JobStatus>(&json).unwrap(), world.status);
    assign(&mut world, &[0, 1, 2, 4], "worker 3 -> 4: +1 room is free");
    world.settle();
    assert_eq!(ranks(&world), [0, 1, 2, 4]);
}

#[test]
fn a_lost_pod_is_made_again_only_where_the_planner_says() {
    let mut world = undecided();
    assign(&mut world, &[0, 1, 2], "all");
    world.settle();
    // Every pod is there, so the assignment has no places.
    assign(&mut world, &[0, 1, 2], "all");
    world.settle();
    world.pods.retain(|pod| pod.rank != Rank(2));
    world.settle();
    assert_eq!(ranks(&world), [0, 1]);
    assign(&mut world, &[0, 1], "worker 3 -> 2: -1 the pod was preempted, evicted or failed");
    world.settle();
    assert_eq!((ranks(&world), world.status.targets[&name("worker")].replicas), (vec![0, 1], 2));
    world.pods.retain(|pod| pod.rank != Rank(1) || pod.role != name("worker"));
    assign(&mut world, &[0, 1], "all");
    world.settle();
    assert_eq!(ranks(&world), [0, 1]);
}

#[test]
fn a_pod_whose_node_is_gone_moves_and_costs_nothing() {
    let mut world = undecided();
    assign(&mut world, &[0, 1], "all");
    world.settle();
    let old = world.pods.iter().find(|pod| pod.rank == Rank(1)).unwrap().uid.clone();
    assign(&mut world, &[0, 1], "all");
    let Some(Some(assignment)) = &mut world.planned else { panic!() };
    let workers = assignment.roles.get_mut(&name("worker")).unwrap();
    workers.moved.insert(old.clone());
    workers.places.insert(Rank(1), Place { node: "n9".to_owned(), is_base: true });
    world.settle();
    let moved = world.pods.iter().find(|pod| pod.rank == Rank(1)).unwrap();
    assert_ne!(moved.uid, old);
    assert_eq!(world.desired_pods.last().unwrap().place.as_ref().unwrap().node, "n9");
    assert_eq!(world.status.roles[&name("worker")].slots[&Rank(1)].history.counted, 0);
}

#[test]
fn a_controller_that_is_killed_anywhere_comes_to_the_same_end() {
    for kill_after in 0..25 {
        let mut world = undecided();
        world.killed_after = Some(kill_after);
        assign(&mut world, &[0, 1, 2, 3, 4], "all");
        world.settle();
        assign(&mut world, &[0, 1, 3], "fewer");
        world.settle();
        assert_eq!(ranks(&world), [0, 1, 3], "killed after {kill_after} actions");
    }
}

#[test]
fn what_a_persons_plan_wants_is_placed_by_the_planner() {
    let mut world = undecided();
    assign(&mut world, &[0, 1, 2], "all");
    world.settle();
    world.scale_workers("by-hand", 4);
    world.settle();
    let target = &world.status.targets[&name("worker")];
    assert_eq!((target.replicas, target.wanted), (3, Some(4)), "no pod is ended or made before there is room");
    assert_eq!((ranks(&world), world.plan("by-hand").0), (vec![0, 1, 2], PlanPhase::Scaling));
    assign(&mut world, &[0, 1, 2, 3], "worker 3 -> 4: +1 the base fits");
    world.settle();
    assert_eq!((ranks(&world), world.plan("by-hand").0), (vec![0, 1, 2, 3], PlanPhase::Succeeded));
    assert!(world.status.targets[&name("worker")].set_by.is_by_hand());
    // A pod that is lost changes nothing of what is wanted.
    assign(&mut world, &[0, 1, 2], "worker 4 -> 3: -1 the pod was preempted, evicted or failed");
    world.settle();
    assert_eq!(world.status.targets[&name("worker")].wanted, Some(4));
}

#[test]
fn a_job_does_not_succeed_while_the_planner_keeps_a_pod_from_it() {
    let mut world = undecided();
    assign(&mut world, &[0, 1], "all");
    world.settle();
    world.exits("j-worker-0", 0);
    world.vanishes("j-worker-1");
    assign(&mut world, &[0], "worker 2 -> 1: -1 the pod was preempted, evicted or failed");
    let Some(Some(assignment)) = &mut world.planned else { panic!() };
    assignment.held = Some(Cause::new(Reason::JobHeld, "room for 1 of its pods"));
    world.settle();
    assert_eq!(world.status.phase, Phase::Running, "its work is not done");
    assign(&mut world, &[0, 1], "worker 1 -> 2: +1 the base fits");
    world.settle();
    world.exits("j-worker-1", 0);
    world.settle();
    assert_eq!(world.status.phase, Phase::Succeeded);
}
