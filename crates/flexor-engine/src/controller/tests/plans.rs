//! Plans: their order, what supersedes them, and what new pods get from them.

use flexor_model::{IdRule, Reason, Resources, RoleChange, RoleName};

use super::world::{World, name};
use crate::controller::*;

fn memory(memory: &str) -> RoleChange {
    RoleChange { replicas: None, resources: Resources::from_iter([("memory", memory.parse().unwrap())]) }
}

const SUPERSEDED: (PlanPhase, Option<Reason>) = (PlanPhase::Failed, Some(Reason::PlanSuperseded));

#[test]
fn plans_are_carried_out_one_after_the_other() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.starts = false;
    world.scale_workers("a", 2);
    world.settle();
    world.plan_for("b", RoleChange { replicas: Some(1), resources: Resources::default() });
    let master: RoleName = name("master");
    let change = world.plans[1].plan.roles.remove(&name("worker")).unwrap();
    world.plans[1].plan.roles.insert(master, change);
    world.settle();
    assert_eq!((world.plan("a").0, world.plan("b").0), (PlanPhase::Scaling, PlanPhase::Pending));
    world.pod("j-worker-1").phase = PodPhase::Running;
    world.settle();
    assert_eq!((world.plan("a").0, world.plan("b").0), (PlanPhase::Succeeded, PlanPhase::Succeeded));
}

#[test]
fn of_plans_for_the_same_role_the_latest_counts() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.scale_workers("b", 3);
    world.scale_workers("a", 2);
    world.settle();
    assert_eq!(world.plan("a"), SUPERSEDED, "of the same moment, the first by name");
    assert_eq!(world.plan("b").0, PlanPhase::Succeeded);
    assert_eq!(world.desired_pods.len(), 4, "what was superseded before it began has made no pod");
    let target = &world.status.targets[&name("worker")];
    assert_eq!((target.replicas, &target.set_by), (3, &SetBy::Plan("b".to_owned())));
    world.edit(2);
    world.settle();
    let target = &world.status.targets[&name("worker")];
    assert_eq!((target.replicas, &target.set_by), (2, &SetBy::Edit));
}

#[test]
fn a_plan_whose_pods_do_not_come_is_superseded_by_the_next_change_of_its_role() {
    for by_edit in [false, true] {
        let mut world = World::of(1, IdRule::Rank);
        world.settle();
        world.starts = false;
        world.scale_workers("too-many", 5);
        world.settle();
        assert_eq!(world.plan("too-many").0, PlanPhase::Scaling);
        if by_edit {
            world.edit(2);
        } else {
            world.scale_workers("x", 2);
        }
        world.settle();
        assert_eq!(world.plan("too-many"), SUPERSEDED);
        assert_eq!(world.running().len(), 3);
        assert_eq!(world.reasons().iter().filter(|reason| **reason == Reason::PlanSuperseded).count(), 1);
    }
}

#[test]
fn an_impossible_plan_supersedes_nothing_and_is_refused_at_once() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.starts = false;
    world.scale_workers("a", 5);
    world.settle();
    world.scale_workers("b", 6);
    world.settle();
    assert_eq!(world.plan("a").0, PlanPhase::Scaling);
    assert_eq!(world.plan("b"), (PlanPhase::Failed, Some(Reason::PlanRefused)));
}

#[test]
fn a_change_that_only_the_earlier_plan_asks_for_is_not_lost() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.plan_for("a", memory("4Gi"));
    world.scale_workers("b", 2);
    world.settle();
    assert_eq!(world.plan("b").0, PlanPhase::Succeeded);
    assert_eq!(world.desired("j-worker-1").resources.memory().unwrap().to_string(), "4Gi");
}

#[test]
fn an_ended_slot_counts_as_filled_for_a_plan() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.exits("j-worker-1", 0);
    world.settle();
    world.vanishes("j-worker-1");
    world.scale_workers("p", 3);
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-2"]);
    assert_eq!(world.plan("p").0, PlanPhase::Succeeded);
}

#[test]
fn an_impossible_plan_changes_nothing_and_says_why() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.scale_workers("p", 6);
    world.settle();
    let status = &world.plans[0].status;
    assert_eq!((status.phase, status.cause.clone().unwrap().reason), (PlanPhase::Failed, Reason::PlanRefused));
    assert_eq!(world.running().len(), 2);
}

#[test]
fn a_worker_that_runs_out_of_memory_gets_twice_as_much() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.runs_out_of_memory("j-worker-0");
    world.pass(5);
    assert_eq!(world.desired("j-worker-0").memory.unwrap().to_string(), "2Gi");
}

#[test]
fn the_memory_of_a_plan_counts_before_and_after_an_end_for_want_of_it() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    assert_eq!(world.desired("j-worker-0").memory, None, "the template says it");
    world.plan_for("more", memory("4Gi"));
    world.settle();
    world.vanishes("j-worker-0");
    world.settle();
    let asked = |world: &World| {
        let desired = world.desired("j-worker-0");
        (desired.resources.memory().unwrap().to_string(), desired.memory.map(|memory| memory.to_string()))
    };
    assert_eq!(asked(&world), ("4Gi".to_owned(), None), "the plan says it");
    world.runs_out_of_memory("j-worker-0");
    world.pass(5);
    assert_eq!(asked(&world), ("4Gi".to_owned(), Some("8Gi".to_owned())), "twice what was not enough");
    world.plan_for("much", memory("16Gi"));
    world.settle();
    world.vanishes("j-worker-0");
    world.settle();
    assert_eq!(asked(&world), ("16Gi".to_owned(), None), "the plan says more");
    world.plan_for("less", memory("2Gi"));
    world.settle();
    world.vanishes("j-worker-0");
    world.settle();
    assert_eq!(asked(&world), ("2Gi".to_owned(), Some("8Gi".to_owned())), "what was not enough is not tried again");
}
