//! Migrations that the job's master proposes: they keep to the same bounds as its other plans.

use flexor_model::{PlanOrigin, Reason, ReplicaRange, Resources, RoleChange, RoleSize, Sizing};

use super::world::{World, name};
use crate::Cause;
use crate::controller::*;

const NO_ROOM: (PlanPhase, Option<Reason>) = (PlanPhase::Failed, Some(Reason::Unschedulable));
const REFUSED: (PlanPhase, Option<Reason>) = (PlanPhase::Failed, Some(Reason::PlanRefused));

fn memory(amount: &str) -> Resources {
    Resources::from_iter([("memory", amount.parse().unwrap())])
}

/// A running job whose servers its master sizes.
fn world() -> World {
    let mut world = World::with_server();
    world.job.sizing = Sizing::Job;
    let (any, range) = (ReplicaRange::at_least(0), ReplicaRange::new(1, 4).unwrap());
    world.job.roles[1].size = RoleSize::automatic(1, any, range).unwrap();
    world.settle();
    world
}

/// The master proposes more memory for the server.
fn propose(world: &mut World, amount: &str) {
    world.migrate("auto", "j-ps-0", memory(amount));
    world.plans.last_mut().unwrap().plan.origin = PlanOrigin::Auto;
}

fn server_stays(world: &World) -> bool {
    world.running().iter().filter(|name| name.starts_with("j-ps-")).eq([&"j-ps-0"])
}

#[test]
fn a_successor_without_room_ends_the_plan_after_a_minute() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "4Gi");
    world.settle();
    world.pod("j-ps-1").pending = Some(Cause::new(Reason::Unschedulable, "it asks for 4Gi, 1Gi is free"));
    world.pass(59);
    assert_eq!(world.plan("auto").0, PlanPhase::Scaling, "there may be room in a moment");
    world.pass(2);
    assert_eq!(world.plan("auto"), NO_ROOM);
    assert!(server_stays(&world), "{:?}", world.running());
}

#[test]
fn a_successor_that_is_refused_ends_the_plan_after_a_minute() {
    let mut world = world();
    world.refuses = Some("exceeded quota: team-a".to_owned());
    propose(&mut world, "4Gi");
    world.pass(59);
    assert_eq!(world.plan("auto").0, PlanPhase::Scaling);
    world.pass(32);
    assert_eq!(world.plan("auto"), NO_ROOM);
    world.refuses = None;
    world.pass(60);
    assert!(server_stays(&world), "{:?}", world.running());
}

#[test]
fn more_pods_that_are_refused_end_the_plan_after_a_minute() {
    let mut world = world();
    world.refuses = Some("exceeded quota: team-a".to_owned());
    world.plan_for_role("auto", "ps", RoleChange { replicas: Some(2), resources: Resources::default() });
    world.plans.last_mut().unwrap().plan.origin = PlanOrigin::Auto;
    world.pass(100);
    assert_eq!(world.plan("auto"), NO_ROOM);
    assert_eq!(world.status.targets[&name("ps")].replicas, 1);
}

#[test]
fn a_plan_of_a_person_for_the_role_ends_it() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "4Gi");
    world.settle();
    world.plan_for_role("by-hand", "ps", RoleChange { replicas: Some(1), resources: memory("2Gi") });
    world.settle();
    assert_eq!(world.plan("auto"), (PlanPhase::Failed, Some(Reason::PlanSuperseded)));
    world.let_pods_start(true);
    world.settle();
    assert_eq!(world.plan("by-hand").0, PlanPhase::Succeeded);
    assert!(server_stays(&world), "{:?}", world.running());
    world.vanishes("j-ps-0");
    world.settle();
    let resources = world.desired_pods.last().unwrap().resources.to_string();
    assert!(resources.ends_with("memory=2Gi"), "what the person said holds: {resources}");
    // From now on the role is the person's.
    let server = world.running().into_iter().find(|pod| pod.starts_with("j-ps-")).unwrap().to_owned();
    world.migrate("again", &server, memory("4Gi"));
    world.plans.last_mut().unwrap().plan.origin = PlanOrigin::Auto;
    world.settle();
    assert_eq!(world.plan("again"), REFUSED);
}

#[test]
fn a_successor_keeps_to_the_ceiling_and_to_roles_that_are_automatic() {
    let mut above = world();
    // The master and two workers request 1Gi each, the server nothing.
    above.job.ceiling = memory("5Gi");
    propose(&mut above, "3Gi");
    above.settle();
    assert_eq!(above.plan("auto"), REFUSED);
    let mut below = world();
    below.job.ceiling = memory("6Gi");
    propose(&mut below, "3Gi");
    below.released.insert("j-ps-0".to_owned());
    below.settle();
    assert_eq!(below.plan("auto").0, PlanPhase::Succeeded);
    let mut manual = World::with_server();
    manual.settle();
    propose(&mut manual, "3Gi");
    manual.settle();
    assert_eq!(manual.plan("auto"), REFUSED);
}
