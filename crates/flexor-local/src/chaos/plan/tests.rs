use super::*;

const HORIZON: Duration = Duration::from_secs(600);

fn targets() -> Vec<FaultTarget> {
    let job = JobKey { namespace: "default".parse().unwrap(), name: "job".parse().unwrap() };
    let target = |role: &str, replicas, is_master| FaultTarget {
        job: job.clone(),
        role: role.parse().unwrap(),
        replicas,
        is_master,
        has_sidecar: !is_master,
        is_spared: false,
    };
    vec![target("master", 1, true), target("Worker", 4, false)]
}

fn lines(faults: &[ScheduledFault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// A change here changes the meaning of every seed that a user has noted down.
#[test]
fn a_seed_stands_for_the_same_faults_for_ever() {
    let first: Vec<ScheduledFault> = plan(42, Rate::default(), &targets(), HORIZON).into_iter().take(12).collect();
    assert_eq!(
        lines(&first),
        [
            "7.4s kill master 0 of job",
            "7.8s set the clock of default/job back by 1s",
            "9.8s stop Worker 2 of job for 4.7s",
            "11.9s kill master 0 of job",
            "18.8s fail all writes of the cluster for 0.4s",
            "24.8s stop master 0 of job for 0.8s",
            "32.6s fail all writes of the cluster for 2.1s",
            "40.5s slow the disk of default/job by 200ms for 2.2s",
            "41.2s kill the supervisor of Worker 0 of job",
            "46.5s kill master 0 of job",
            "53.1s kill the supervisor of master 0 of job",
            "58.2s fail all writes of the cluster for 1.2s",
        ]
    );
}

#[test]
fn the_same_seed_gives_the_same_list_and_another_seed_another() {
    let [one, again, other] = [1, 1, 2].map(|seed| plan(seed, Rate::default(), &targets(), HORIZON));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn faults_come_in_order_before_the_horizon_and_about_as_often_as_asked_for() {
    for (rate, about) in [(0.2, 120), (2.0, 1200)] {
        let faults = plan(7, Rate::try_from(rate).unwrap(), &targets(), HORIZON);
        assert!(faults.is_sorted_by_key(|fault| fault.at_ms) && faults.iter().all(|fault| fault.at() < HORIZON));
        assert!((about * 8 / 10..about * 12 / 10).contains(&faults.len()), "{} at {rate}", faults.len());
    }
}

#[test]
fn every_fault_hits_every_target_sooner_or_later() {
    let all = lines(&plan(3, Rate::try_from(10.0).unwrap(), &targets(), HORIZON)).join("\n");
    for fault in ["kill", "kill the supervisor of", "stop", "delete"] {
        for slot in ["master 0 of job", "Worker 0 of job", "Worker 3 of job"] {
            assert!(all.contains(&format!("s {fault} {slot}")), "{fault} {slot}");
        }
    }
    for fault in
        ["kill the sidecar of Worker", "fill the disk", "slow the disk", "on by 3600s", "back by 1s", "fail all"]
    {
        assert!(all.contains(fault), "{fault}");
    }
    assert!(!all.contains("sidecar of master"));
}

#[test]
fn servers_without_replicas_are_stopped_for_a_moment_at_most() {
    let servers =
        FaultTarget { role: "ps".parse().unwrap(), is_spared: true, has_sidecar: false, ..targets()[1].clone() };
    let targets = [targets(), vec![servers.clone()]].concat();
    let faults = plan(3, Rate::try_from(10.0).unwrap(), &targets, HORIZON);
    let of_servers = faults.iter().filter(|fault| fault.to_string().contains(" ps ")).collect::<Vec<_>>();
    let is_short = |fault: &&ScheduledFault| matches!(fault.fault, Fault::Stop { for_ms, .. } if for_ms <= 1_000);
    assert!(!of_servers.is_empty() && of_servers.iter().all(is_short), "{of_servers:?}");
    let replicated = [targets[..2].to_vec(), vec![FaultTarget { is_spared: false, ..servers }]].concat();
    let all = lines(&plan(3, Rate::try_from(10.0).unwrap(), &replicated, HORIZON)).join("\n");
    assert!(all.contains("s kill ps 0 of job") && all.contains("s delete ps 1 of job"));
}

#[test]
fn without_targets_only_the_clusters_disk_is_hit() {
    let faults = plan(3, Rate::try_from(10.0).unwrap(), &[], HORIZON);
    assert!(!faults.is_empty() && faults.iter().all(|fault| matches!(fault.fault, Fault::FailWrites { .. })));
}

#[test]
fn a_rate_is_a_number_within_its_bounds() {
    assert_eq!("1.5".parse::<Rate>().unwrap(), Rate(1.5));
    for wrong in ["", "x", "0", "-1", "NaN", "inf", "1e9"] {
        assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
    }
}
