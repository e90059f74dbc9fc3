//! The numbers of the published experiment's first plan: 240 cores, trainers of one core.

use flexor_model::Rank;

use super::fixture::*;
use crate::{Rule, Shortage};

#[test]
fn a_job_alone_takes_all_cores_at_once() {
    let mut world = World::of(40, 6);
    world.jobs.push(tutorial_job("mnist1", 1, 50, 500));
    let plan = world.step();
    assert_eq!(world.size("mnist1"), 237);
    assert_eq!(world.ranks("mnist1", "trainer"), (0..237).collect::<Vec<_>>());
    let decision = plan.role(&"mnist1".into(), &trainer()).unwrap();
    assert_eq!(decision.changes(), [(Rule::Base, 50), (Rule::Growth, 187)]);
    assert_eq!(decision.to_string(), "mnist1 trainer 0 -> 237: +50 the base fits, +187 room is free");
    assert!(world.plan().changes_nothing(&world.promises));
}

#[test]
fn a_second_job_gets_its_base_at_once_and_its_share_by_and_by() {
    let mut world = World::of(40, 6);
    world.jobs.push(tutorial_job("mnist1", 1, 50, 500));
    world.step();
    world.bind();
    world.jobs.push(tutorial_job("mnist2", 2, 50, 200));
    let plan = world.step();
    assert_eq!(world.ranks("mnist1", "trainer"), (0..184).collect::<Vec<_>>(), "the highest 53 ranks make room");
    assert_eq!(plan.role(&"mnist1".into(), &trainer()).unwrap().changes(), [(Rule::RoomFor("mnist2".into()), -53)]);
    assert_eq!((plan.promises.len(), world.size("mnist2")), (53, 0), "no pod before its room is free");
    world.drain();
    world.step();
    assert_eq!((world.size("mnist2"), world.ranks("mnist2", "pserver").len()), (50, 2));
    world.bind();
    world.rest();
    assert_eq!(world.ranks("mnist1", "trainer"), (0..150).collect::<Vec<_>>());
    assert_eq!(world.ranks("mnist2", "trainer"), (0..84).collect::<Vec<_>>());

    world.end_job("mnist1");
    world.rest();
    assert_eq!(world.size("mnist2"), 200);
}

#[test]
fn two_jobs_that_start_together_share_equally_from_the_first_plan() {
    let mut world = World::of(40, 6);
    world.jobs = vec![tutorial_job("mnist1", 1, 50, 500), tutorial_job("mnist2", 1, 50, 200)];
    world.step();
    assert_eq!((world.size("mnist1"), world.size("mnist2")), (150, 84));
    assert_eq!((world.target("mnist1"), world.target("mnist2")), (150, 84));
}

#[test]
fn a_swap_costs_one_pod_and_waits_for_it() {
    let mut world = World::of(1, 10);
    world.jobs = vec![trainers("a", 1, 0, 10, cores(1))];
    world.rest();
    world.jobs.push(trainers("b", 2, 0, 10, cores(1)));
    world.swaps = 2;
    let plan = world.step();
    assert_eq!((plan.swaps, world.size("a"), world.size("b")), (2, 8, 0));
    assert_eq!(plan.role(&"a".into(), &trainer()).unwrap().remove[0].rule, Rule::SwapTo("b".into()));
    world.drain();
    let plan = world.step();
    assert_eq!((world.size("a"), world.size("b")), (8, 2));
    assert_eq!(plan.role(&"b".into(), &trainer()).unwrap().changes(), [(Rule::Swap, 2)]);
    world.rest();
    assert_eq!((world.size("a"), world.size("b")), (5, 5));
}

#[test]
fn a_job_of_a_fixed_size_is_held_whole_until_the_other_has_ended() {
    let mut world = World::of(40, 6);
    world.jobs = vec![tutorial_job("mnist1", 1, 100, 100), tutorial_job("mnist2", 2, 200, 200)];
    let plan = world.step();
    assert_eq!((world.size("mnist1"), world.size("mnist2")), (100, 0));
    let shortage = plan.shortage(&"mnist2".into()).unwrap();
    assert_eq!(shortage.to_string(), "needs 203 cores; 137 free, 0 could be freed");
    world.bind();
    world.end_job("mnist1");
    let plan = world.step();
    assert_eq!((world.size("mnist2"), plan.held.len()), (200, 0));
}

#[test]
fn a_job_larger_than_the_cluster_is_held_and_stops_nobody() {
    let mut world = World::of(40, 6);
    world.jobs = vec![tutorial_job("large", 1, 300, 300), tutorial_job("small", 2, 2, 4)];
    let plan = world.step();
    assert!(matches!(plan.shortage(&"large".into()), Some(Shortage::Cluster { .. })));
    assert_eq!(plan.held[0].shortage.to_string(), "needs 303 cores; the nodes that accept it have 240");
    assert_eq!((world.size("large"), world.size("small")), (0, 4));
}

#[test]
fn of_two_jobs_that_fit_only_alone_the_more_urgent_one_runs() {
    let mut world = World::of(4, 6);
    world.jobs = vec![tutorial_job("first", 1, 15, 15), tutorial_job("urgent", 2, 15, 15)];
    world.jobs[1].priority = 1;
    let plan = world.step();
    assert_eq!((world.size("first"), world.size("urgent")), (0, 15));
    assert_eq!(plan.held.len(), 1);
    world.rest();
    world.end_job("urgent");
    world.rest();
    assert_eq!(world.size("first"), 15);
}

#[test]
fn base_pods_prefer_their_node_and_surplus_pods_require_it() {
    let mut world = World::of(2, 3);
    world.jobs.push(trainers("a", 1, 2, 9, cores(1)));
    let plan = world.step();
    let create = &plan.role(&"a".into(), &trainer()).unwrap().create;
    assert_eq!(create.iter().map(|pod| pod.base).collect::<Vec<_>>(), [true, true, false, false, false, false]);
    assert_eq!(create[2].rank, Rank(2));
}
