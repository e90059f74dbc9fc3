//! Plans of the job's master: what they may do, and that they leave alone what people do.

use flexor_model::{IdRule, PlanOrigin, Reason, ReplicaRange, Resources, RoleChange, RoleSize, Sizing};

use super::world::{World, name};
use crate::Cause;
use crate::controller::*;

/// A job of one worker, which its master may give one to four.
fn world() -> World {
    let mut world = World::of(1, IdRule::Rank);
    world.job.sizing = Sizing::Job;
    let range = ReplicaRange::new(1, 4).unwrap();
    world.job.roles[1].size = RoleSize::automatic(1, ReplicaRange::at_least(0), range).unwrap();
    world.settle();
    world
}

fn replicas(world: &World) -> u32 {
    world.status.targets[&name("worker")].replicas
}

/// The master proposes so many workers, for a reason.
fn propose(world: &mut World, plan: &str, workers: u32) {
    world.scale_workers(plan, workers);
    let made = &mut world.plans.last_mut().unwrap().plan;
    (made.origin, made.message) = (PlanOrigin::Auto, "31 → 62 steps/s expected".to_owned());
}

fn message(world: &World, plan: &str) -> String {
    let plan = world.plans.iter().find(|known| known.plan.name.as_str() == plan).unwrap();
    plan.status.cause.as_ref().unwrap().message.clone()
}

#[test]
fn an_automatic_plan_is_carried_out_and_says_why() {
    let mut world = world();
    propose(&mut world, "j-auto-0", 2);
    world.settle();
    assert_eq!(world.plan("j-auto-0"), (PlanPhase::Succeeded, Some(Reason::PlanDone)));
    assert_eq!(message(&world, "j-auto-0"), "j-auto-0: all pods are as it says: 31 → 62 steps/s expected");
    let target = &world.status.targets[&name("worker")];
    assert_eq!((target.replicas, &target.set_by), (2, &SetBy::Auto("j-auto-0".to_owned())));
}

#[test]
fn it_keeps_to_range_and_ceiling() {
    let mut world = world();
    propose(&mut world, "too-many", 5);
    world.settle();
    assert_eq!(world.plan("too-many"), (PlanPhase::Failed, Some(Reason::PlanRefused)));
    // Each pod requests 1Gi.
    world.job.ceiling = Resources::from_iter([("memory", "3Gi".parse().unwrap())]);
    propose(&mut world, "too-large", 4);
    world.settle();
    assert_eq!(world.plan("too-large"), (PlanPhase::Failed, Some(Reason::PlanRefused)));
    assert!(message(&world, "too-large").contains("more memory than the job's ceiling, 3Gi"), "{world:?}");
    assert_eq!(replicas(&world), 1);
    // People may go over it, and nothing shrinks because of it.
    world.scale_workers("by-hand", 6);
    world.settle();
    assert_eq!(replicas(&world), 6);
}

#[test]
fn what_a_person_has_set_is_left_alone_until_it_is_given_back() {
    for by_edit in [false, true] {
        let mut world = world();
        if by_edit {
            let allowed = ReplicaRange::at_least(0);
            world.job.roles[1].size = RoleSize::automatic(3, allowed, ReplicaRange::new(1, 4).unwrap()).unwrap();
            world.generation += 1;
        } else {
            world.scale_workers("by-hand", 3);
        }
        world.settle();
        propose(&mut world, "auto", 2);
        world.settle();
        assert_eq!((world.plan("auto").0, replicas(&world)), (PlanPhase::Failed, 3));
        assert!(message(&world, "auto").contains("worker was set by hand; `flexor scale j --auto` gives it back"));
        world.plan_for("back", RoleChange { replicas: None, resources: Resources::default() });
        world.plans.last_mut().unwrap().plan.gives_back = true;
        world.settle();
        assert_eq!((world.plan("back").0, replicas(&world)), (PlanPhase::Succeeded, 3));
        propose(&mut world, "auto-1", 2);
        world.settle();
        assert_eq!((world.plan("auto-1").0, replicas(&world)), (PlanPhase::Succeeded, 2));
    }
}

#[test]
fn a_plan_of_a_person_wins_whichever_came_first() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "auto", 4);
    world.settle();
    assert_eq!(world.plan("auto").0, PlanPhase::Scaling);
    world.scale_workers("by-hand", 3);
    world.settle();
    assert_eq!(world.plan("auto"), (PlanPhase::Failed, Some(Reason::PlanSuperseded)));
    propose(&mut world, "auto-1", 2);
    world.settle();
    assert_eq!((world.plan("by-hand").0, world.plan("auto-1").0), (PlanPhase::Scaling, PlanPhase::Failed));
    world.let_pods_start(true);
    world.settle();
    assert_eq!((world.plan("by-hand").0, replicas(&world)), (PlanPhase::Succeeded, 3));
}

#[test]
fn pods_without_room_end_the_plan_and_the_target_goes_back_to_what_runs() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "auto", 3);
    world.settle();
    let waits = |world: &mut World, pod: &str| {
        world.pod(pod).pending = Some(Cause::new(Reason::Unschedulable, "it asks for 1 CPU, 0 are free"));
    };
    world.pod("j-worker-1").phase = PodPhase::Running;
    waits(&mut world, "j-worker-2");
    world.settle();
    assert_eq!(world.plan("auto").0, PlanPhase::Scaling, "there may be room in a moment");
    world.pass(61);
    world.settle();
    assert_eq!(world.plan("auto"), (PlanPhase::Failed, Some(Reason::Unschedulable)));
    assert_eq!(replicas(&world), 2);
    assert!(!world.running().contains(&"j-worker-2"), "{:?}", world.running());
}

#[test]
fn a_measurement_of_long_ago_decides_nothing() {
    let mut world = world();
    propose(&mut world, "auto", 2);
    world.now += std::time::Duration::from_secs(61);
    world.settle();
    assert_eq!((world.plan("auto").0, replicas(&world)), (PlanPhase::Failed, 1));
    assert!(message(&world, "auto").contains("too long ago"));
}

#[test]
fn a_job_that_ends_while_it_grows_ends_its_plan() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "auto", 4);
    world.settle();
    assert_eq!(world.plan("auto").0, PlanPhase::Scaling);
    // Its program gives up.
    world.closed = Some(Cause::new(Reason::RestartsExhausted, "the program failed 4 times"));
    world.exits("j-worker-0", 1);
    world.pass(600);
    assert_eq!(world.status.phase, Phase::Failed, "{:?}", world.status);
    assert_eq!(world.plan("auto"), (PlanPhase::Failed, Some(Reason::JobOver)));
    assert_eq!(world.running(), [] as [&str; 0], "pods that had not begun are gone");
}

#[test]
fn workers_that_find_no_room_do_not_keep_a_job_from_its_end() {
    let mut world = world();
    world.starts = false;
    propose(&mut world, "auto", 3);
    world.settle();
    for pod in ["j-worker-1", "j-worker-2"] {
        world.pod(pod).pending = Some(Cause::new(Reason::Unschedulable, "it asks for 1 CPU, 0 are free"));
    }
    world.exits("j-worker-0", 0);
    world.pass(100);
    assert_eq!(world.plan("auto"), (PlanPhase::Failed, Some(Reason::Unschedulable)));
    assert_eq!((replicas(&world), world.status.phase), (1, Phase::Succeeded), "{:?}", world.status);
}

#[test]
fn a_controller_that_is_killed_while_a_plan_runs_carries_it_out_once() {
    for steps in 0..20 {
        let mut world = world();
        world.killed_after = Some(steps);
        propose(&mut world, "auto", 3);
        world.settle();
        world.killed_after = None;
        assert_eq!((world.plan("auto").0, replicas(&world)), (PlanPhase::Succeeded, 3), "killed after {steps}");
        assert_eq!(world.running().len(), 4, "{:?}", world.running());
    }
}

#[test]
fn a_ceiling_below_what_runs_lets_a_job_shrink() {
    let mut world = world();
    world.scale_workers("by-hand", 4);
    world.settle();
    world.plan_for("back", RoleChange { replicas: None, resources: Resources::default() });
    world.plans.last_mut().unwrap().plan.gives_back = true;
    world.job.ceiling = Resources::from_iter([("memory", "1Gi".parse().unwrap())]);
    world.settle();
    assert_eq!(replicas(&world), 4, "nothing shrinks because of the ceiling");
    propose(&mut world, "fewer", 3);
    world.settle();
    assert_eq!((world.plan("fewer").0, replicas(&world)), (PlanPhase::Succeeded, 3));
    propose(&mut world, "more", 4);
    world.settle();
    assert_eq!((world.plan("more").0, replicas(&world)), (PlanPhase::Failed, 3));
}
