//! What was promised is compared with what was measured.

use super::*;

/// Carries out the first proposal, and returns what comes of it.
fn tried(rate_of: fn(u32) -> f64) -> (Sizer, RunningJob, Proposal, Decision) {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    job.rate_of = rate_of;
    let proposal = first_proposal(&mut sizer, &mut job, 10).unwrap();
    job.carry_out(&proposal);
    let decision = first_decision(&mut sizer, &mut job, 60).unwrap();
    (sizer, job, proposal, decision)
}

#[test]
fn a_change_that_did_harm_is_taken_back_and_not_tried_again_for_five_minutes() {
    // Four workers together are slower than one.
    let (mut sizer, mut job, first, decision) = tried(|workers| if workers > 1 { 5.0 } else { 31.0 });
    let result = decision.result.unwrap();
    assert!(result.taken_back && result.to_string().contains("expected, 20 measured; taken back"), "{result}");
    let back = decision.proposal.unwrap();
    assert_eq!((back.purpose, replicas(&back, "worker")), (Purpose::TakeBack, Some(0)));
    assert!(back.reason().contains("3 workers more: 31 → "), "{}", back.reason());
    job.carry_out(&back);
    let taken_back_at = job.second;
    while job.second < taken_back_at + 290 {
        let sample = job.next();
        if let Some(proposal) = sizer.handle(&sample, job.now()).proposal {
            assert_ne!(proposal.roles, first.roles, "at {}", job.second);
            job.carry_out(&proposal);
        }
    }
}

#[test]
fn a_change_that_brought_much_less_than_promised_teaches_that_something_unseen_is_short() {
    // Something shared serves forty batches a second.
    let (mut sizer, mut job, _, decision) = tried(|workers| f64::min(31.0, 40.0 / f64::from(workers)));
    let result = decision.result.unwrap();
    assert!(!result.taken_back && result.measured < 0.5 * result.expected, "{result}");
    let sample = job.next();
    sizer.handle(&sample, job.now());
    let (_, bottleneck) = sizer.pace().unwrap();
    assert_eq!(*bottleneck, Bottleneck::Unseen);
    job.sample.ceiling = Ceiling::default();
    for _ in 0..100 {
        let sample = job.next();
        let proposal = sizer.handle(&sample, job.now()).proposal;
        let more = proposal.iter().filter_map(|proposal| replicas(proposal, "worker")).find(|count| *count > 3);
        assert_eq!(more, None, "{proposal:?}");
        proposal.iter().for_each(|proposal| job.carry_out(proposal));
    }
}

#[test]
fn a_plan_that_found_no_room_is_not_tried_again_for_five_minutes() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    let first = first_proposal(&mut sizer, &mut job, 10).unwrap();
    job.sample.plan = Some(AutomaticPlan { number: first.number, state: PlanState::NoRoom });
    let ended_at = job.second;
    let next = first_proposal(&mut sizer, &mut job, 900).expect("room is looked for again");
    assert!(job.second >= ended_at + 290, "{} {next:?}", job.second - ended_at);
}

#[test]
fn a_server_that_will_be_full_soon_gets_twice_the_memory_inside_the_ceiling() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    job.sample.workers.held_by = Some("an edit of the job".to_owned());
    let fills = |sample: &mut Sample, second: u64| {
        let Servers::Measured(pods) = &mut sample.server_pods else { return };
        pods[0].load.as_mut().unwrap().bytes = second * GIBIBYTE / 20;
    };
    let mut proposal = None;
    for _ in 0..60 {
        let mut sample = job.next();
        fills(&mut sample, job.second);
        proposal = sizer.handle(&sample, job.now()).proposal;
        if proposal.is_some() {
            break;
        }
    }
    let proposal = proposal.expect("5.4Gi are reached after 108 seconds");
    assert_eq!(proposal.purpose, Purpose::Memory);
    let successor = Allotment::from(&proposal.migrate[0].resources);
    assert_eq!((proposal.migrate[0].pod.as_str(), successor.bytes), ("deep-ps-0", 2 * POD.bytes));
    assert!(proposal.reason().contains("deep-ps-0 uses ") && proposal.reason().contains("Mi a second"));
}
