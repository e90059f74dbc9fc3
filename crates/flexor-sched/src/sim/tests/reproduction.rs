//! The figures of the validated model that this one is built after, and of the measured runs that it was fitted to.

use super::*;

#[test]
fn jobs_of_a_fixed_size_behave_as_measured_in_case_1() {
    let report = run(&Experiment::case1(Policy::Off, 30));
    near(report.cpu_percent(300, 500), 88.66, 0.5);
    near(report.cpu_percent(0, 550), 82.4, 0.5);
    assert_eq!((report.trainers(550), report.never_started(), report.peak_pending()), (339, 14, 14));
    assert_eq!(report.trainers_ended, 0);
}

#[test]
fn edl_waits_as_long_as_in_the_validated_model_in_case_1() {
    for (grace, mean, longest, never, plateau) in
        [(5, 114.7, 365, 5, 87.6), (10, 81.9, 341, 3, 87.9), (30, 46.65, 317, 1, 88.7)]
    {
        let report = run(&Experiment::case1(Policy::Edl, grace));
        near(report.mean_pending(), mean, 0.1);
        assert_eq!((report.longest_pending(), report.never_started()), (longest, never), "grace {grace}");
        near(report.cpu_percent(300, 500), plateau, 0.1);
    }
}

#[test]
fn edl_is_as_unfair_as_measured_in_case_1() {
    let report = run(&Experiment::case1(Policy::Edl, 30));
    near(report.jain(550), 0.437, 0.01);
    near(report.cpu_percent(0, 550), 81.9, 0.1);
    assert_eq!((report.trainers(550), report.peak_pending()), (245, 7));
    assert!((126..=163).contains(&report.trainers_ended), "{}", report.trainers_ended);
}

#[test]
fn jobs_of_a_fixed_size_behave_as_measured_in_case_2() {
    let report = run(&Experiment::case2(Policy::Off, 30));
    near(report.cpu_percent(0, 550), 62.2, 0.1);
    near(report.cpu_percent(300, 370), 44.6, 0.1);
    near(report.attainment_from(0).unwrap(), 0.993, 0.001);
    assert_eq!(report.trainers(360), 90);
}

#[test]
fn edl_serves_the_online_pods_as_badly_as_the_validated_model_in_case_2() {
    for (grace, whole, upward) in [(5, 0.941, 0.860), (30, 0.929, 0.826)] {
        let report = run(&Experiment::case2(Policy::Edl, grace));
        near(report.attainment().unwrap(), whole, 0.001);
        near(report.attainment_from(389).unwrap(), upward, 0.001);
        near(report.cpu_percent(0, 550), 85.3, 0.1);
    }
    let report = run(&Experiment::case2(Policy::Edl, 30));
    assert_eq!(report.trainers(360), 258);
    let reached: Vec<Option<u32>> = report.steps.iter().map(|step| step.reached_after).collect();
    assert_eq!(reached, [Some(0), Some(0), Some(0), Some(130), Some(132), None]);
}

#[test]
fn pod_priority_alone_gives_the_validated_gain_in_case_2() {
    for (grace, whole, upward, cpu) in [(5, 0.986, 0.967, 84.7), (30, 0.966, 0.917, 84.6)] {
        let report = run(&Experiment::case2(Policy::EdlWithPriority, grace));
        near(report.attainment().unwrap(), whole, 0.001);
        near(report.attainment_from(389).unwrap(), upward, 0.001);
        near(report.cpu_percent(0, 550), cpu, 0.1);
    }
}

#[test]
fn a_run_is_deterministic() {
    for policy in Policy::ALL {
        let experiment = Experiment::case2(policy, 10);
        assert_eq!(run(&experiment), run(&experiment), "{policy}");
    }
}
