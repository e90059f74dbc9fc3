//! Migrations: which pods exist when, what is reported, and what happens when something fails.

use flexor_model::{IdRule, NodeId, Reason, Resources};

use super::world::{World, name};
use crate::controller::*;

const FAILED: (PlanPhase, Option<Reason>) = (PlanPhase::Failed, Some(Reason::MigrationFailed));
const SUPERSEDED: (PlanPhase, Option<Reason>) = (PlanPhase::Failed, Some(Reason::PlanSuperseded));

fn larger() -> Resources {
    Resources::from_iter([("cpu", "2".parse().unwrap()), ("memory", "4Gi".parse().unwrap())])
}

/// A world whose pods run, in which the server is to migrate.
fn migrating() -> World {
    let mut world = World::with_server();
    world.settle();
    world.migrate("m", "j-ps-0", larger());
    world
}

fn servers(world: &World) -> Vec<&str> {
    world.running().into_iter().filter(|name| name.starts_with("j-ps-")).collect()
}

fn is_leaving(world: &World, id: u32) -> bool {
    world.status.is_leaving(&(name("ps"), flexor_model::Rank(0), NodeId(id)))
}

#[test]
fn a_server_stays_until_its_successor_runs_and_has_all_that_it_kept() {
    let mut world = migrating();
    world.starts = false;
    world.settle();
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-1"], "one more is made, and the old one stays");
    assert_eq!((world.plan("m").0, is_leaving(&world, 0)), (PlanPhase::Scaling, false));
    let desired = world.desired("j-ps-1");
    assert_eq!((desired.rank.0, desired.resources.to_string().as_str()), (0, "cpu=2 memory=4Gi"));

    world.let_pods_start(true);
    world.settle();
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-1"], "it still keeps something");
    assert!(is_leaving(&world, 0) && !is_leaving(&world, 1), "and is asked to give it away");
    assert!(world.reasons().contains(&Reason::PodMigrates));

    world.lingers = true;
    world.released.insert("j-ps-0".to_owned());
    world.settle();
    assert_eq!((world.plan("m").0, world.pod("j-ps-0").deleting), (PlanPhase::Scaling, true));
    world.pass(1);
    assert_eq!((servers(&world), world.plan("m").0), (vec!["j-ps-1"], PlanPhase::Succeeded));
    assert_eq!(world.running().len(), 4, "no other pod was touched");
    assert_eq!(world.desired_pods.len(), 5, "{:?}", world.desired_pods);
    assert_eq!(world.look(), Reconciliation::default(), "nothing is left to do");
}

#[test]
fn a_worker_goes_when_its_successor_runs_and_costs_nothing() {
    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.migrate("m", "j-worker-0", larger());
    world.settle();
    assert_eq!(
        (world.running(), world.plan("m").0),
        (vec!["j-master-0", "j-worker-1", "j-worker-2"], PlanPhase::Succeeded)
    );
    assert_eq!((world.slot(0).id, world.slot(0).relaunches, world.slot(0).history.counted), (NodeId(2), 0, 0));
    assert!(!world.reasons().contains(&Reason::PodDeleted), "it was no loss");
    // The request stays with the slot until a plan changes the role.
    world.vanishes("j-worker-2");
    world.settle();
    assert_eq!(world.desired("j-worker-3").resources, larger());
    let change =
        flexor_model::RoleChange { replicas: None, resources: Resources::from_iter([("cpu", "1".parse().unwrap())]) };
    world.plan_for("all", change);
    world.settle();
    world.vanishes("j-worker-3");
    world.settle();
    assert_eq!(world.desired("j-worker-4").resources.to_string(), "cpu=1");
}

#[test]
fn no_number_is_used_twice() {
    let mut world = World::with_server();
    world.settle();
    world.edit_servers(2);
    world.settle();
    world.edit_servers(1);
    world.settle();
    world.migrate("m", "j-ps-0", larger());
    world.settle();
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-2"]);
}

#[test]
fn a_successor_that_is_lost_is_made_again_and_one_that_fails_is_not() {
    let mut world = migrating();
    world.settle();
    world.exits("j-ps-1", 137);
    world.settle();
    assert_eq!((servers(&world), world.plan("m").0), (vec!["j-ps-0", "j-ps-2"], PlanPhase::Scaling));
    world.vanishes("j-ps-2");
    world.settle();
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-3"]);
    world.exits("j-ps-3", 1);
    world.settle();
    assert_eq!((servers(&world), world.plan("m")), (vec!["j-ps-0"], FAILED));
    let told = world.plans[0].status.cause.clone().unwrap().message;
    assert!(told.contains("j-ps-3") && told.contains("exit code 1") && told.ends_with("j-ps-0 stays"), "{told}");
    assert!(!is_leaving(&world, 0));
    assert_eq!(world.pods.len(), 4, "what ended is removed");
}

#[test]
fn a_successor_that_is_lost_again_and_again_is_given_up() {
    let mut world = migrating();
    for lost in 1..=4 {
        world.settle();
        world.exits(&format!("j-ps-{lost}"), 137);
    }
    world.settle();
    assert_eq!((servers(&world), world.plan("m")), (vec!["j-ps-0"], FAILED));
}

#[test]
fn a_successor_that_finds_no_room_is_reported_and_then_given_up() {
    let mut world = migrating();
    world.starts = false;
    world.settle();
    world.pod("j-ps-1").pending = Some(Cause::new(Reason::Unschedulable, "it asks for 2 CPUs"));
    world.settle();
    let told = world.plans[0].status.cause.clone().unwrap();
    assert_eq!(told.reason, Reason::Unschedulable);
    assert!(told.message.ends_with("take the slot of j-ps-0: it asks for 2 CPUs"), "{told}");
    world.pass(599);
    assert_eq!(world.plan("m").0, PlanPhase::Scaling);
    world.pass(2);
    assert_eq!((servers(&world), world.plan("m")), (vec!["j-ps-0"], FAILED));
    assert!(world.plans[0].status.cause.clone().unwrap().message.contains("it asks for 2 CPUs"));
}

#[test]
fn a_pod_that_is_lost_while_it_migrates_is_replaced_by_its_successor() {
    for starts in [true, false] {
        let mut world = migrating();
        world.starts = starts;
        world.settle();
        world.vanishes("j-ps-0");
        world.settle();
        assert_eq!(servers(&world), ["j-ps-1"]);
        world.let_pods_start(true);
        world.settle();
        assert_eq!((world.plan("m").0, world.running().len()), (PlanPhase::Succeeded, 4));
        assert_eq!(world.desired("j-ps-1").resources, larger());
    }
    let mut world = migrating();
    world.settle();
    world.exits("j-ps-0", 137);
    world.settle();
    assert_eq!((servers(&world), world.plan("m").0), (vec!["j-ps-1"], PlanPhase::Succeeded));
}

#[test]
fn later_plans_run_while_a_plan_waits_for_a_successor() {
    let mut world = migrating();
    world.settle();
    world.scale_workers("more", 3);
    world.settle();
    assert_eq!((world.plan("m").0, world.plan("more").0), (PlanPhase::Scaling, PlanPhase::Succeeded));
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-1"]);
    world.released.insert("j-ps-0".to_owned());
    world.settle();
    assert_eq!((servers(&world), world.plan("m").0), (vec!["j-ps-1"], PlanPhase::Succeeded));
}

#[test]
fn a_migration_ends_with_its_plan_and_with_a_later_plan_for_the_pod() {
    let mut world = migrating();
    world.settle();
    world.plans.clear();
    world.settle();
    assert_eq!((servers(&world), is_leaving(&world, 0)), (vec!["j-ps-0"], false));

    world.migrate("a", "j-ps-0", larger());
    world.settle();
    world.migrate("b", "j-ps-0", Resources::default());
    world.settle();
    assert_eq!((world.plan("a"), world.plan("b").0), (SUPERSEDED, PlanPhase::Scaling));
    assert_eq!(servers(&world), ["j-ps-0", "j-ps-3"]);
    world.released.insert("j-ps-0".to_owned());
    world.settle();
    assert_eq!((servers(&world), world.plan("b").0), (vec!["j-ps-3"], PlanPhase::Succeeded));
}

#[test]
fn a_slot_that_is_not_needed_any_more_gets_no_successor() {
    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.starts = false;
    world.migrate("m", "j-worker-1", larger());
    world.settle();
    world.edit(1);
    world.settle();
    assert_eq!((world.running(), world.plan("m")), (vec!["j-master-0", "j-worker-0"], SUPERSEDED));

    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.starts = false;
    world.migrate("m", "j-worker-1", larger());
    world.settle();
    world.exits("j-worker-1", 0);
    world.settle();
    assert_eq!((world.running(), world.plan("m")), (vec!["j-master-0", "j-worker-0"], FAILED));
}

#[test]
fn in_a_suspended_job_the_successor_takes_the_slot_at_once() {
    let mut world = migrating();
    world.settle();
    world.job.suspended = true;
    world.settle();
    assert_eq!((world.running().len(), world.plan("m").0), (0, PlanPhase::Succeeded));
    world.job.suspended = false;
    world.settle();
    assert_eq!((servers(&world), world.running().len()), (vec!["j-ps-1"], 4));
    assert_eq!(world.desired("j-ps-1").resources, larger());
}

#[test]
fn what_cannot_migrate_is_refused_with_the_reason() {
    for (ids, pod, why) in [
        (IdRule::Increasing, "j-worker-7", "no pod j-worker-7"),
        (IdRule::Increasing, "j-master-0", "only workers and parameter servers"),
        (IdRule::Rank, "j-worker-0", "would have its name"),
    ] {
        let mut world = World::of(2, ids);
        world.settle();
        world.migrate("m", pod, larger());
        world.settle();
        assert_eq!(world.plan("m"), (PlanPhase::Failed, Some(Reason::PlanRefused)), "{pod}");
        let told = world.plans[0].status.cause.clone().unwrap().message;
        assert!(told.contains(why), "{told}");
        assert_eq!(world.running().len(), 3);
    }
    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.exits("j-worker-0", 0);
    world.settle();
    world.migrate("m", "j-worker-0", larger());
    world.settle();
    assert_eq!(world.plan("m"), (PlanPhase::Failed, Some(Reason::PlanRefused)));
}

#[test]
fn a_plan_that_comes_with_its_job_waits_for_the_pods() {
    let mut world = World::with_server();
    world.migrate("m", "j-worker-1", larger());
    world.settle();
    assert_eq!(world.plan("m").0, PlanPhase::Succeeded);
    assert_eq!(world.running(), ["j-master-0", "j-ps-0", "j-worker-0", "j-worker-2"]);
}

#[test]
fn a_controller_that_is_killed_after_any_action_migrates_once() {
    let play = |killed_after: Option<usize>| {
        let mut world = World::with_server();
        (world.killed_after, world.lingers) = (killed_after, true);
        world.settle();
        world.migrate("m", "j-ps-0", larger());
        world.settle();
        world.exits("j-ps-1", 137);
        world.settle();
        world.released.insert("j-ps-0".to_owned());
        world.pass(3);
        world
    };
    let killed = (0..).map(|after| play(Some(after))).take_while(|world| world.killed_after.is_none());
    assert!(
        killed
            .inspect(|world| {
                assert_eq!((servers(world), world.plan("m").0), (vec!["j-ps-2"], PlanPhase::Succeeded));
                assert_eq!(world.desired_pods.iter().filter(|desired| desired.name.starts_with("j-ps-")).count(), 3);
                assert_eq!(world.running().len(), 4);
            })
            .count()
            > 20
    );
}
