//! What the planner is to reach, in the same model as its competitors.

use super::*;

#[test]
fn in_case_1_every_job_starts_as_soon_as_room_can_drain() {
    for (grace, mean, longest) in [(5, 8.0, 10), (30, 26.0, 36)] {
        let report = run(&Experiment::case1(Policy::Planned, grace));
        assert!(report.mean_pending() <= mean && report.longest_pending() <= longest, "grace {grace}");
        assert_eq!(report.never_started(), 0);
        assert!(report.jobs.iter().all(|job| job.complete == job.started), "a gang starts whole");
    }
}

#[test]
fn in_case_1_the_cluster_is_full_and_shared_equally() {
    for grace in [5, 30] {
        let report = run(&Experiment::case1(Policy::Planned, grace));
        assert!(report.cpu_percent(300, 500) >= 92.0, "{}", report.cpu_percent(300, 500));
        assert!(report.jain(550) >= 0.98, "{}", report.jain(550));
        assert!(report.trainers_ended <= 360, "{}", report.trainers_ended);
        assert!(report.samples.iter().all(|sample| sample.trainers.iter().all(|trainers| *trainers <= 60)));
    }
}

#[test]
fn in_case_2_the_online_service_is_served_no_worse_than_with_edl_and_priority() {
    for grace in [5, 30] {
        let ours = run(&Experiment::case2(Policy::Planned, grace));
        let theirs = run(&Experiment::case2(Policy::EdlWithPriority, grace));
        assert!(ours.attainment() >= theirs.attainment(), "{:?} {:?}", ours.attainment(), theirs.attainment());
        assert!(ours.attainment_from(389) >= theirs.attainment_from(389));
        assert!(ours.cpu_percent(0, 550) >= theirs.cpu_percent(0, 550));
        assert!(ours.steps.iter().all(|step| step.reached_after.is_some()), "400 is reached again: {:?}", ours.steps);
    }
}

#[test]
fn the_tutorials_jobs_end_with_150_and_84_trainers() {
    let report = run(&Experiment::tutorial(Policy::Planned, 5));
    let before = report.samples.iter().find(|sample| sample.second == 60).unwrap();
    assert_eq!((&before.trainers[..], before.cpu), (&[237, 0][..], 240_000));
    assert_eq!(report.samples.last().unwrap().trainers, [150, 84]);
    assert_eq!(report.cpu_percent(250, 300), 100.0);
}

#[test]
fn jobs_that_have_done_their_work_leave_their_room_to_others() {
    let mut experiment = Experiment::tutorial(Policy::Planned, 5);
    experiment.jobs[0].work = Some(20_000);
    let report = run(&experiment);
    let ended = report.jobs[0].succeeded.unwrap();
    assert_eq!(report.mean_running(), Some(f64::from(ended - report.jobs[0].started.unwrap())));
    assert_eq!(report.samples.last().unwrap().trainers, [0, 200]);
}

#[test]
fn a_run_is_written_as_one_line_for_each_second() {
    let report = run(&Experiment::tutorial(Policy::Planned, 5));
    let csv = report.csv();
    assert_eq!(csv.lines().count(), 302);
    assert_eq!(csv.lines().next_back(), Some("300,100.00,234,0,0,0,150|84"));
}
