//! The life of a job: pods, failures, sizes, limits and its end.

use std::time::Duration;

use flexor_model::{CleanPods, IdRule, Reason, UnixTime};

use super::world::{World, name};
use crate::controller::*;

#[test]
fn a_job_gets_its_pods_and_keeps_them() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!(world.status.phase, Phase::Running);
    assert_eq!(world.look(), Reconciliation::default(), "nothing is left to do");
}

#[test]
fn a_deleted_worker_comes_back_under_its_name_and_costs_nothing() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.vanishes("j-worker-1");
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!((world.slot(1).relaunches, world.slot(1).history.counted), (1, 0));
}

#[test]
fn with_increasing_ids_a_replacement_has_the_next_id_and_the_same_rank() {
    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.vanishes("j-worker-0");
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-1", "j-worker-2"]);
    assert_eq!(world.pod("j-worker-2").rank.0, 0);
    world.exits("j-worker-2", 137);
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-1", "j-worker-3"]);
}

#[test]
fn failures_are_charged_once_retried_after_a_wait_and_then_the_slot_ends() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    for failure in 1..=2 {
        world.exits("j-worker-1", 1);
        world.settle();
        assert_eq!(world.slot(1).history.counted, failure);
        assert!(world.look().requeue_at.is_some_and(|at| at > world.now), "it waits");
        world.pass(5);
        assert_eq!(world.running().len(), 3, "after failure {failure}");
    }
    world.exits("j-worker-1", 1);
    world.pass(600);
    let end = world.slot(1).end.clone().unwrap();
    assert_eq!((end.succeeded, end.cause.reason), (false, Reason::RetriesExhausted));
    assert_eq!(world.status.phase, Phase::Running, "the other goes on");
    world.exits("j-worker-0", 0);
    world.settle();
    assert_eq!(world.status.phase, Phase::Succeeded, "one is enough for this job");
}

#[test]
fn a_job_whose_workers_have_all_failed_for_good_fails_with_the_cause() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    for _ in 0..3 {
        world.exits("j-worker-0", 3);
        world.pass(10);
    }
    assert_eq!(world.status.phase, Phase::Failed);
    let cause = world.status.cause.clone().unwrap();
    assert_eq!(cause.reason, Reason::TooFewLeft);
    assert!(cause.message.contains("exit code 3"), "{cause}");
    assert_eq!(world.running(), Vec::<&str>::new(), "its master is ended");
}

/// The second worker failed because of the first, and its pod ended before that of the first.
#[test]
fn a_job_fails_with_the_failure_that_came_first() {
    for (first, second) in [
        // By the times of the failures.
        (Some(("KeyError: label", 5)), Some(("RuntimeError: the other is gone", 6))),
        // By the words, where a peer was lost.
        (Some(("KeyError: label", 6)), Some(("RuntimeError: Connection closed by peer", 5))),
        // A pod without words says nothing.
        (Some(("KeyError: label", 6)), None),
    ] {
        let mut world = World::of(2, IdRule::Rank);
        world.settle();
        world.closed = Some(Cause::new(Reason::RestartsExhausted, "the program failed 4 times"));
        for (name, failure) in [("j-worker-1", second), ("j-worker-0", first)] {
            world.exits(name, 1);
            let end = &mut world.pod(name).end;
            end.error = failure.map(|(error, _)| error.to_owned());
            end.failed_at = failure.map(|(_, second)| UnixTime::from_secs(second));
        }
        world.settle();
        let cause = world.status.cause.clone().unwrap();
        assert_eq!(cause.to_string(), "RestartsExhausted: the program failed 4 times: exit code 1; KeyError: label");
    }
}

#[test]
fn a_master_is_always_started_again() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    for code in [0, 1, 137] {
        world.exits("j-master-0", code);
        world.pass(10);
        assert_eq!(world.running(), ["j-master-0", "j-worker-0"], "after exit code {code}");
    }
}

#[test]
fn when_all_workers_have_ended_well_the_job_has_and_its_master_goes() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.exits("j-worker-0", 0);
    world.settle();
    assert_eq!(world.status.phase, Phase::Running);
    world.exits("j-worker-1", 0);
    world.settle();
    assert_eq!(world.status.phase, Phase::Succeeded);
    assert_eq!(world.pods.len(), 2, "the workers stay to be looked at");
    world.job.end.clean_pods = CleanPods::All;
    world.settle();
    assert_eq!(world.pods, []);
}

#[test]
fn an_edit_makes_the_job_larger_and_smaller_from_the_end() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.edit(4);
    world.settle();
    assert_eq!(world.running().len(), 5);
    world.edit(1);
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0"]);
    assert!(world.status.roles[&name("worker")].slots.len() == 1);
}

#[test]
fn a_job_that_is_not_done_in_time_fails() {
    let mut world = World::of(1, IdRule::Rank);
    world.job.end.deadline_seconds = Some(60);
    world.settle();
    world.pass(59);
    assert_eq!(world.status.phase, Phase::Running);
    world.pass(1);
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::JobDeadlineExceeded);
    assert_eq!(world.running(), Vec::<&str>::new());
}

#[test]
fn a_job_that_does_not_get_its_nodes_is_given_up_if_it_says_so() {
    for (limit, phase) in [(None, Phase::Pending), (Some(60), Phase::Failed)] {
        let mut world = World::of(2, IdRule::Rank);
        world.job.end.shortage_seconds = limit;
        world.starts = false;
        world.settle();
        world.pass(59);
        assert_eq!(world.status.phase, Phase::Pending);
        world.pass(1);
        assert_eq!(world.status.phase, phase, "{limit:?}");
    }
}

#[test]
fn the_wait_for_nodes_begins_anew_with_each_shortage() {
    let mut world = World::of(1, IdRule::Rank);
    world.job.end.shortage_seconds = Some(60);
    world.starts = false;
    world.settle();
    world.pass(50);
    world.starts = true;
    world.pod("j-worker-0").phase = PodPhase::Running;
    world.pass(50);
    assert_eq!((world.status.phase, world.status.short_since), (Phase::Running, None));
    world.vanishes("j-worker-0");
    world.starts = false;
    world.settle();
    world.pass(59);
    assert_eq!(world.status.phase, Phase::Running);
    world.pass(1);
    assert_eq!(world.status.cause.clone().unwrap().reason, Reason::ShortTooLong);
}

#[test]
fn a_program_that_failed_too_often_for_the_master_is_not_tried_again() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.closed = Some(Cause::new(Reason::RunFinished, "all have finished"));
    world.settle();
    assert_eq!(world.status.phase, Phase::Running, "how the pods end decides");
    world.closed = Some(Cause::new(Reason::RestartsExhausted, "the program failed 4 times"));
    world.settle();
    assert_eq!(world.status.phase, Phase::Running, "they have a moment to say why");
    world.pod("j-worker-1").end.error = Some("no such file".to_owned());
    world.exits("j-worker-1", 1);
    world.settle();
    world.exits("j-worker-0", 1);
    world.settle();
    let cause = world.status.cause.clone().unwrap();
    assert_eq!(cause.to_string(), "RestartsExhausted: the program failed 4 times: exit code 1; no such file");
    assert_eq!((world.status.phase, world.running()), (Phase::Failed, Vec::new()));
    assert_eq!(world.pods.len(), 2, "they stay to be looked at");
}

#[test]
fn a_pod_that_does_not_end_after_the_program_was_given_up_is_deleted() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.closed = Some(Cause::new(Reason::RestartsExhausted, "the program failed 4 times"));
    world.pass(9);
    assert_eq!(world.running().len(), 3);
    world.pass(2);
    assert_eq!((world.status.phase, world.running()), (Phase::Failed, Vec::new()));
}

#[test]
fn a_finished_job_is_removed_when_it_is_time() {
    let mut world = World::of(1, IdRule::Rank);
    world.job.end.remove_after_seconds = Some(100);
    world.settle();
    world.exits("j-worker-0", 0);
    world.settle();
    assert_eq!(world.look().requeue_at, Some(world.now + Duration::from_secs(100)));
    world.pass(99);
    assert_eq!((world.status.phase, world.job_is_gone), (Phase::Succeeded, false));
    world.pass(1);
    assert!(world.job_is_gone);
}

#[test]
fn a_finished_job_stays_unless_it_is_to_be_removed() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.exits("j-worker-0", 0);
    world.pass(1_000_000);
    assert_eq!((world.status.phase, world.job_is_gone), (Phase::Succeeded, false));
}

#[test]
fn a_deleted_job_takes_everything_with_it() {
    let mut world = World::of(2, IdRule::Rank);
    world.lingers = true;
    world.settle();
    world.services.insert("j-master".to_owned());
    world.deleting = true;
    world.settle();
    let terminating: Vec<_> = world.pods.iter().map(|pod| (pod.name.as_str(), pod.deleting)).collect();
    assert_eq!(terminating, [("j-master-0", true), ("j-worker-0", true), ("j-worker-1", true)]);
    assert!(world.services.is_empty() && !world.job_is_gone, "the job stays until its pods are gone");
    world.pass(1);
    assert!(world.pods.is_empty() && world.job_is_gone);
}

#[test]
fn a_deleted_job_waits_for_a_pod_that_is_being_created() {
    let mut world = World::of(1, IdRule::Rank);
    world.deleting = true;
    world.executor.outstanding.insert("j-worker-0".to_owned());
    assert_eq!(world.look().actions, [], "the executor has not seen what it created");
    world.executor.outstanding.clear();
    assert!(matches!(world.look().actions[..], [Action::DeleteJob { .. }]), "{:?}", world.look().actions);
}

#[test]
fn existing_pods_are_adopted() {
    let mut world = World::of(2, IdRule::Increasing);
    world.settle();
    world.vanishes("j-worker-1");
    world.settle();
    world.status = JobStatus::default();
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-2"]);
    world.vanishes("j-worker-0");
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-2", "j-worker-3"], "no number is used twice");
}

#[test]
fn every_decision_about_a_pod_is_recorded_as_an_event() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.exits("j-worker-0", 1);
    world.pass(5);
    world.exits("j-worker-0", 0);
    world.settle();
    let reasons = world.reasons();
    for expected in [Reason::JobCreated, Reason::ProgramError, Reason::ProgramSucceeded, Reason::JobSucceeded] {
        assert!(reasons.contains(&expected), "{expected} in {reasons:?}");
    }
}

#[test]
fn too_few_servers_for_the_replication_factor_are_reported() {
    let mut world = World::with_server();
    world.job.ps_replication_factor = 2;
    let told = |world: &World| world.reasons().iter().filter(|reason| **reason == Reason::NoServerForBackup).count();
    world.settle();
    assert_eq!(told(&world), 1, "{:?}", world.events);
    world.edit_servers(2);
    world.settle();
    assert_eq!(told(&world), 1, "{:?}", world.events);
    world.edit_servers(1);
    world.settle();
    assert_eq!(told(&world), 2, "{:?}", world.events);
}
