//! Room that is made for a gang belongs to it until it starts, whatever happens meanwhile.

use super::fixture::*;
use crate::{Location, Rule};

/// Job `a` fills two nodes of 4 cores with 1-core pods; job `b` needs three pods of 2 cores.
fn gang_waits() -> World {
    let mut world = World::of(2, 4);
    world.jobs.push(trainers("a", 1, 1, 100, cores(1)));
    world.rest();
    world.jobs.push(trainers("b", 2, 3, 3, cores(2)));
    world.step();
    world
}

#[test]
fn a_gang_starts_when_all_of_its_room_is_free_and_not_before() {
    let mut world = gang_waits();
    assert_eq!((world.size("a"), world.plan().promises_of(&"b".into()).count()), (2, 3));
    let one = world.pods.iter().position(|pod| pod.terminating).unwrap();
    world.pods.remove(one);
    let plan = world.step();
    assert!(plan.roles.is_empty(), "neither does the gang start in part nor does job a take the core: {plan:?}");
    world.drain();
    world.step();
    assert_eq!((world.size("a"), world.size("b"), world.promises.len()), (2, 3, 0));
}

#[test]
fn a_later_gang_does_not_get_what_an_earlier_one_waits_for() {
    let mut world = gang_waits();
    world.jobs.push(trainers("c", 3, 1, 1, cores(1)));
    let plan = world.step();
    let taken = plan.role(&"a".into(), &trainer()).unwrap().changes();
    assert_eq!(taken, [(Rule::RoomFor("c".into()), -1)], "it makes room of its own");
    world.drain();
    world.step();
    assert_eq!((world.size("b"), world.size("c"), world.size("a")), (3, 1, 1));
}

#[test]
fn promises_that_were_lost_with_a_leader_are_made_again() {
    let mut world = gang_waits();
    world.promises.clear();
    let plan = world.step();
    assert_eq!((plan.promises.len(), plan.roles.len()), (3, 0), "the room that drains is enough");
    world.drain();
    world.step();
    assert_eq!(world.size("b"), 3);
}

#[test]
fn half_a_gang_that_was_created_before_a_crash_gets_the_rest() {
    let mut world = gang_waits();
    world.drain();
    let plan = world.plan();
    world.apply(&plan);
    // The first pod was written; of the others the next leader knows nothing but the promises.
    world.pods.retain(|pod| pod.owner.as_ref().is_none_or(|o| o.job.as_str() != "b" || o.rank.0 == 0));
    world.promises = gang_waits().promises;
    world.step();
    assert_eq!(world.ranks("b", "trainer"), [0, 1, 2]);
}

#[test]
fn a_promise_dies_with_its_node_and_the_gang_finds_another_place() {
    let mut world = gang_waits();
    world.nodes.push(node("n99", cores(4)));
    let lost = world.promises[0].node.clone();
    world.nodes.retain(|node| node.name != lost);
    world.pods.retain(|pod| pod.location != Location::Bound(lost.clone()));
    world.drain();
    world.rest();
    assert_eq!(world.size("b"), 3);
    assert!((0..3).all(|rank| world.node_of("b", rank) != Some(lost.clone())));
}

#[test]
fn a_gang_that_cannot_be_completed_gives_its_promises_back() {
    let mut world = gang_waits();
    let lost = world.promises[0].node.clone();
    world.nodes.iter_mut().filter(|node| node.name == lost).for_each(|node| node.schedulable = false);
    let plan = world.step();
    assert_eq!((plan.promises.len(), plan.held.len()), (0, 1));
    world.drain();
    world.rest();
    assert_eq!((world.size("b"), world.size("a") > 2), (0, true), "job a grows again");
}

#[test]
fn a_pod_that_waits_for_a_closed_or_lost_node_moves() {
    for close in
        [|world: &mut World| world.nodes[0].schedulable = false, |world: &mut World| drop(world.nodes.remove(0))]
    {
        let mut world = World::of(2, 4);
        world.jobs.push(trainers("a", 1, 4, 4, cores(1)));
        world.step();
        close(&mut world);
        let plan = world.step();
        let decision = plan.role(&"a".into(), &trainer()).unwrap();
        assert!(decision.remove.iter().all(|removal| removal.rule == Rule::PlaceGone));
        let changes = vec![(Rule::Base, 2), (Rule::PlaceGone, -2)];
        assert_eq!((decision.from, decision.to, decision.changes()), (4, 4, changes));
        assert!((0..4).all(|rank| world.node_of("a", rank) == Some("n01".into())));
    }
}

#[test]
fn a_pod_bound_elsewhere_is_counted_where_it_is() {
    let mut world = World::of(2, 4);
    world.jobs.push(trainers("a", 1, 2, 8, cores(1)));
    world.step();
    // The scheduler puts a base pod where a surplus pod was to go.
    let other = if world.node_of("a", 0) == Some("n00".into()) { "n01" } else { "n00" };
    for pod in &mut world.pods {
        if pod.owner.as_ref().is_some_and(|owner| owner.rank.0 == 0) {
            pod.location = Location::Bound(other.into());
        }
    }
    let plan = world.step();
    let decision = plan.role(&"a".into(), &trainer()).unwrap();
    assert_eq!((decision.remove.len(), decision.create.len(), decision.to), (1, 1, 8), "one surplus pod moves");
    world.rest();
    assert_eq!(world.size("a"), 8);
}
