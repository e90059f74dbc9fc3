//! A master that is restarted measures anew, and makes no plan twice. A controller that is restarted is only slow.

use super::*;

#[test]
fn a_master_that_is_restarted_before_the_controller_saw_its_proposal_makes_the_same_one() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    let mut restarted = Sizer::default();
    let began = job.second;
    let second = first_proposal(&mut restarted, &mut job, 20).unwrap();
    assert!(job.second >= began + 7, "it has measured anew");
    // The same name, so that whichever comes second is there already.
    assert_eq!((second.number, &second.roles), (first.number, &first.roles));
}

#[test]
fn a_master_that_is_restarted_while_its_plan_runs_waits_and_counts_on() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    job.sample.ceiling = Ceiling::default();
    job.carry_out(&first);
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::Open });
    job.sample.steady = false;
    let mut restarted = Sizer::default();
    assert_eq!(first_decision(&mut restarted, &mut job, 100), None, "a plan is open");
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::Succeeded });
    job.sample.steady = true;
    let began = job.second;
    let decision = first_decision(&mut restarted, &mut job, 20).unwrap();
    assert_eq!(decision.result, None, "what was promised is forgotten");
    assert_eq!(decision.proposal.unwrap().number, first.number + 1);
    assert!(job.second >= began + 7, "it has measured anew");
}

#[test]
fn a_proposal_that_no_controller_sees_is_withdrawn_and_made_again() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    let proposed_at = job.second;
    assert_eq!(sizer.open_proposal(), Some(&first));
    let again = first_proposal(&mut sizer, &mut job, 60).unwrap();
    assert!(job.second > proposed_at + 30);
    assert_eq!((again.number, again.roles), (first.number, first.roles));
}

#[test]
fn a_controller_that_is_restarted_while_the_plan_runs_changes_nothing() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    job.carry_out(&first);
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::Open });
    job.sample.steady = false;
    assert_eq!(first_decision(&mut sizer, &mut job, 50), None, "the plan is open, and the sizer proposes no other");
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::Succeeded });
    job.sample.steady = true;
    let decision = first_decision(&mut sizer, &mut job, 30).unwrap();
    assert_eq!((decision.result.map(|result| result.number), decision.proposal), (Some(first.number), None));
}

#[test]
fn a_person_who_takes_over_in_the_middle_wins() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    // The controller has ended the plan, and the workers are as a plan of a person says.
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::Failed });
    job.sample.workers.replicas = 1;
    job.sample.workers.held_by = Some("the plan deep-2".to_owned());
    job.resize();
    for _ in 0..1000 {
        let sample = job.next();
        let decision = sizer.handle(&sample, job.now());
        let of_workers = decision.proposal.as_ref().and_then(|proposal| replicas(proposal, "worker"));
        assert_eq!((of_workers, decision.result), (None, None));
    }
    job.sample.workers.held_by = None;
    assert!(first_proposal(&mut sizer, &mut job, 60).is_some(), "the role was given back");
}
