//! Lost and deleted pods: what is reported, and what it costs.

use flexor_model::{IdRule, NodeId, Reason};

use super::world::{World, name};
use crate::controller::*;

#[test]
fn a_terminating_worker_keeps_its_name_until_it_is_gone() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.pod("j-worker-1").deleting = true;
    world.settle();
    assert_eq!(world.pods.iter().filter(|pod| pod.name == "j-worker-1").count(), 1);
    world.vanishes("j-worker-1");
    world.settle();
    assert_eq!(world.running().len(), 3);
    assert_eq!(world.slot(1).relaunches, 1, "one loss is one loss");
}

/// The last pod is lost when the others have ended well, so a replacement could not join.
#[test]
fn a_node_that_is_lost_when_the_run_is_over_is_not_needed_any_more() {
    for (ids, code) in [(IdRule::Rank, 137), (IdRule::Rank, 1), (IdRule::Increasing, 137), (IdRule::Increasing, 1)] {
        let mut world = World::of(2, ids);
        world.settle();
        world.exits("j-worker-0", 0);
        world.closed = Some(Cause::new(Reason::ClosedByNode, "j-worker-0 ended and closed the run"));
        world.settle();
        world.exits("j-worker-1", code);
        world.settle();
        assert_eq!(world.status.phase, Phase::Succeeded, "{ids:?} {code}: {:?}", world.status.cause);
        assert!(world.reasons().contains(&Reason::RunOver));
    }
}

/// A launcher that gives up also closes the run, but no pod has ended well.
#[test]
fn a_run_that_was_closed_without_success_is_not_over() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.closed = Some(Cause::new(Reason::ClosedByNode, "j-worker-0 ended and closed the run"));
    world.exits("j-worker-0", 1);
    world.settle();
    world.pass(60);
    world.settle();
    assert_eq!(world.status.phase, Phase::Running);
    assert!(!world.reasons().contains(&Reason::RunOver));
}

#[test]
fn a_replacement_that_is_gone_without_a_trace_is_a_loss_of_its_own() {
    let mut world = World::of(1, IdRule::Increasing);
    world.settle();
    world.exits("j-worker-0", 137);
    world.settle();
    assert_eq!(world.slot(0).id, NodeId(1));
    world.vanishes("j-worker-1");
    world.settle();
    assert_eq!((world.slot(0).id, world.slot(0).relaunches), (NodeId(2), 2), "no number is used twice");
}

#[test]
fn a_preempted_pod_is_reported_once_and_costs_no_retry() {
    for ids in [IdRule::Rank, IdRule::Increasing] {
        for has_ended in [false, true] {
            let mut world = World::of(2, ids);
            world.settle();
            world.makes_room("j-worker-1");
            if has_ended {
                world.exits("j-worker-1", 1);
            }
            world.settle();
            if !has_ended {
                world.exits("j-worker-1", 1);
            }
            world.pass(5);
            let losses = || world.events.iter().filter(|event| event.pod.as_deref() == Some("j-worker-1"));
            let told = losses().map(|event| event.cause.to_string()).collect::<Vec<_>>().join("\n");
            assert_eq!(losses().count(), 1, "{told}");
            assert!(told.starts_with("Preempted") && told.contains("k-worker-0 is more important"), "{told}");
            assert!(!world.reasons().contains(&Reason::PodDeleted), "{:?}", world.reasons());
            assert_eq!((world.slot(1).relaunches, world.slot(1).history.counted), (1, 0));
            assert_eq!(world.running().len(), 3);
        }
    }
}

#[test]
fn a_pod_of_a_drained_machine_is_evicted_and_not_deleted() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    let pod = world.pod("j-worker-0");
    (pod.deleting, pod.end.disruption) = (true, Some("EvictionByEvictionAPI".to_owned()));
    world.settle();
    assert!(world.reasons().contains(&Reason::Evicted) && !world.reasons().contains(&Reason::PodDeleted));
}

#[test]
fn a_program_that_answers_to_its_pods_deletion_with_an_error_has_not_failed() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.pod("j-worker-0").deleting = true;
    world.exits("j-worker-0", 1);
    world.pass(5);
    assert!(world.reasons().contains(&Reason::PodDeleted) && !world.reasons().contains(&Reason::ProgramError));
    assert_eq!((world.slot(0).relaunches, world.slot(0).history.counted), (1, 0));
    assert_eq!(world.running().len(), 2);
}

#[test]
fn pods_of_a_role_that_was_edited_out_go_and_are_forgotten() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    let master = world.job.roles.remove(0);
    world.generation += 1;
    let reasons = |turn: Reconciliation| {
        turn.actions.into_iter().filter_map(|action| match action {
            Action::DeletePod { name, cause, .. } => Some((name, cause.reason)),
            _ => None,
        })
    };
    assert_eq!(reasons(world.look()).collect::<Vec<_>>(), [("j-master-0".to_owned(), Reason::NodeRemoved)]);
    world.settle();
    assert_eq!(world.running(), ["j-worker-0", "j-worker-1"]);
    assert!(!world.status.roles.contains_key(&name("master")));
    assert_eq!(world.look(), Reconciliation::default(), "nothing is left to do");
    world.job.roles.insert(0, master);
    world.generation += 1;
    world.settle();
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"], "it may come back");
}

#[test]
fn an_ended_pod_of_a_role_that_was_edited_out_does_not_fail_the_job() {
    let mut world = World::of(1, IdRule::Rank);
    world.settle();
    world.exits("j-master-0", 1);
    world.job.roles.remove(0);
    world.pass(60);
    assert_eq!((world.status.phase, world.running()), (Phase::Running, vec!["j-worker-0"]));
}

#[test]
fn a_suspended_job_has_no_pods_and_goes_on_where_it_was() {
    let mut world = World::of(2, IdRule::Rank);
    world.settle();
    world.exits("j-worker-1", 1);
    world.pass(5);
    world.job.suspended = true;
    world.settle();
    assert_eq!((world.running(), world.status.phase), (vec![], Phase::Suspended));
    world.job.suspended = false;
    world.settle();
    assert_eq!((world.running().len(), world.status.phase), (3, Phase::Running));
    assert_eq!(world.slot(1).history.counted, 1, "what was counted stays counted");
    assert_eq!(world.slot(0).relaunches, 0, "a pause is no loss");
}

#[test]
fn pods_that_still_terminate_when_a_suspended_job_resumes_are_no_losses() {
    let mut world = World::of(2, IdRule::Increasing);
    world.lingers = true;
    world.settle();
    world.job.suspended = true;
    world.settle();
    world.job.suspended = false;
    world.pass(5);
    assert_eq!(world.running(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!((world.slot(0).relaunches, world.reasons().contains(&Reason::PodDeleted)), (0, false));
}

#[test]
fn a_slot_that_is_removed_and_added_again_has_lost_no_pod() {
    let mut world = World::of(2, IdRule::Rank);
    world.lingers = true;
    world.settle();
    world.edit(1);
    world.settle();
    world.edit(2);
    world.pass(5);
    assert_eq!(world.running().len(), 3);
    assert_eq!((world.slot(1).relaunches, world.reasons().contains(&Reason::PodDeleted)), (0, false));
}
