//! Pods that cannot be created, and pods that do not go.

use flexor_model::{IdRule, Reason};

use super::world::World;
use crate::controller::*;

#[test]
fn a_refused_pod_shows_in_the_status_and_is_tried_again_after_a_pause() {
    let mut world = World::of(2, IdRule::Rank);
    world.refuses = Some("exceeded quota: team-a".to_owned());
    world.settle();
    let cause = world.status.cause.clone().unwrap();
    assert_eq!(cause.to_string(), "CreateRefused: j-master-0 cannot be created: exceeded quota: team-a");
    assert!(world.look().requeue_at.is_some_and(|at| at > world.now), "it waits");
    assert_eq!(world.reasons().iter().filter(|reason| **reason == Reason::CreateRefused).count(), 1);
    world.pass(20);
    assert!(world.executor.refused.values().all(|refused| (3..8).contains(&refused.attempts)), "{:?}", world.executor);
    world.refuses = None;
    world.pass(60);
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::JobRunning);
    assert_eq!(world.slot(0).relaunches, 0, "a refusal is no loss");
}

#[test]
fn a_refused_pod_is_tried_again_after_half_a_minute_at_the_latest() {
    let mut world = World::of(1, IdRule::Rank);
    world.refuses = Some("exceeded quota: team-a".to_owned());
    world.pass(1800);
    let pauses: Vec<_> = world.executor.refused.values().map(|refused| refused.attempts).collect();
    assert!(pauses.iter().all(|attempts| *attempts >= 60), "{pauses:?}");
    let again = world.look().requeue_at.unwrap();
    assert!(again.saturating_sub(world.now) <= std::time::Duration::from_secs(30), "{again:?}");
}

#[test]
fn a_running_job_shows_a_refused_replacement_until_it_is_there() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.vanishes("j-worker-1");
    world.refuses = Some("denied by a webhook".to_owned());
    world.settle();
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::CreateRefused);
    assert_eq!(world.status.phase, Phase::Running, "the other goes on");
    world.refuses = None;
    world.pass(5);
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::JobRunning);
    assert_eq!(world.running().len(), 3);
}

#[test]
fn a_pod_that_its_lost_node_cannot_end_is_removed_by_force() {
    let mut world = World::of(2, IdRule::Rank);
    world.lingers = true;
    world.settle();
    (world.pod("j-worker-1").deleting, world.pod("j-worker-1").overdue) = (true, true);
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert!(world.pods.iter().all(|pod| !pod.deleting), "another incarnation has its name");
    assert_eq!(world.slot(1).relaunches, 1);
}

#[test]
fn pods_that_wait_for_room_show_in_the_status_until_they_run() {
    let mut world = World::of(3, IdRule::Rank);
    world.settle();
    let wait = |world: &mut World, name: &str| {
        let pod = world.pod(name);
        pod.phase = PodPhase::Pending;
        pod.pending = Some(Cause::new(Reason::Unschedulable, "0/2 nodes are available: 2 Insufficient cpu."));
    };
    wait(&mut world, "j-worker-2");
    wait(&mut world, "j-worker-1");
    world.settle();
    let message = "Unschedulable: j-worker-1 and 1 more wait: 0/2 nodes are available: 2 Insufficient cpu; free room, add a \
                   node, or let the job request less";
    assert_eq!(world.status.cause.clone().unwrap().to_string(), message);
    assert_eq!(world.status.phase, Phase::Running, "the others go on");
    assert_eq!(world.reasons().iter().filter(|reason| **reason == Reason::Unschedulable).count(), 1, "one event");
    for name in ["j-worker-1", "j-worker-2"] {
        (world.pod(name).phase, world.pod(name).pending) = (PodPhase::Running, None);
    }
    world.settle();
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::JobRunning);
}
