//! Training beside an online service: 183 cores, the service takes its room and gives it back.

use super::fixture::*;
use crate::{Location, Rule};

/// 61 nodes of 3 cores with so many pods of the service, and the training job at rest.
fn hybrid(online: usize) -> World {
    let mut world = World::of(61, 3);
    world.pods = (0..online).map(|at| foreign(&format!("n{:02}", at % 61), cores(1))).collect();
    world.jobs.push(tutorial_job("mnist-hybrid", 1, 2, 100));
    world.rest();
    world
}

#[test]
fn training_takes_what_the_service_leaves() {
    for (online, training) in [(80, 100), (100, 80), (150, 30)] {
        assert_eq!(hybrid(online).size("mnist-hybrid"), training, "beside {online} online pods");
    }
}

#[test]
fn a_preempted_pod_is_not_made_again() {
    let mut world = hybrid(80);
    // The scheduler has ended the trainer and nominated the online pod that waits for its room.
    for rank in 80..100 {
        let node = world.node_of("mnist-hybrid", rank).unwrap();
        world.lose("mnist-hybrid", rank);
        let mut online = foreign(node.as_str(), cores(1));
        online.location = Location::Assigned(node);
        world.pods.push(online);
    }
    let plan = world.step();
    let decision = plan.role(&"mnist-hybrid".into(), &trainer()).unwrap();
    assert_eq!((decision.from, decision.to, decision.create.len()), (100, 80, 0));
    assert_eq!(decision.changes(), [(Rule::Lost, -20)]);
    assert!(world.plan().changes_nothing(&[]));

    world.pods.retain(|pod| pod.owner.is_some() || matches!(pod.location, Location::Bound(_)));
    world.step();
    assert_eq!(world.target("mnist-hybrid"), 100, "it grows back when the service shrinks");
}

#[test]
fn a_preempted_pod_that_still_drains_lowers_the_target_at_once() {
    let mut world = hybrid(80);
    for pod in world.pods.iter_mut().filter(|pod| pod.owner.as_ref().is_some_and(|o| o.rank.0 >= 90)) {
        pod.terminating = true;
    }
    let plan = world.step();
    assert_eq!((world.target("mnist-hybrid"), plan.roles.len()), (90, 1));
    world.drain();
    world.step();
    assert_eq!(world.target("mnist-hybrid"), 100, "nobody took the room");
}

#[test]
fn foreign_pods_that_are_pending_hold_no_room() {
    let mut world = hybrid(80);
    let mut online = foreign("n00", cores(1));
    online.location = Location::Unassigned;
    world.pods.push(online);
    assert!(world.plan().changes_nothing(&[]));
}
