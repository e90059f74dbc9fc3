//! Defects of EDL that the model can show: each scenario fails with EDL's planner of 2017 and not with ours. The
//! numbers are those of `spec/autoscaling.md` 2.7. Those about cards, memory and cordons, which the model does not
//! have, are stories of our planner alone.

use crate::sim::autoscaler::{self, Row};
use crate::sim::cluster::{Kind, SimCluster};
use crate::sim::scheduler::{self, Queue};

use super::*;

/// Both planners in the same experiment.
fn both(experiment: fn(Policy, u32) -> Experiment, grace: u32) -> (Report, Report) {
    (run(&experiment(Policy::Edl, grace)), run(&experiment(Policy::Planned, grace)))
}

#[test]
fn d1_fragments_in_sum_look_like_room() {
    let (theirs, ours) = both(Experiment::case1, 5);
    assert!(theirs.never_started() > 0, "jobs wait although the sum says that there is room");
    assert_eq!(ours.never_started(), 0);
}

#[test]
fn d6_room_that_drains_is_freed_again_and_again() {
    // Ours is the story of the same name: as long as the room drains, nothing else ends.
    let shape = |min, max| JobShape { min, max, ..Experiment::case1(Policy::Edl, 30).jobs[0].shape };
    let mut cluster = SimCluster::new(&[10; 4], 0);
    cluster.resize(Kind::Trainer, Some(0), 7, 5, 0, 30);
    scheduler::schedule(&mut cluster, Queue::Fifo, 0, 100);
    cluster.start(3, 3);
    cluster.resize(Kind::Trainer, Some(1), 2, 5, 4, 30);
    let mut size = 7;
    let mut sizes = Vec::new();
    for now in [5, 10, 15] {
        let rows = vec![Row::new(0, size, &shape(1, 9)), Row::new(1, 2, &shape(2, 9))];
        size = autoscaler::cycle(&cluster, rows, 0).into_iter().find(|(job, _)| *job == 0).unwrap().1;
        cluster.resize(Kind::Trainer, Some(0), size, 5, now + 1, 30);
        sizes.push(size);
    }
    assert_eq!(sizes, [5, 3, 1], "two would have been enough, and they are on their way");
}

#[test]
fn d8_late_jobs_never_get_their_share() {
    let (theirs, ours) = both(Experiment::case1, 30);
    assert!(theirs.jain(550) < 0.5 && ours.jain(550) > 0.98);
}

#[test]
fn d12_trainers_that_fit_nowhere_are_left_pending() {
    let unbound = |report: &Report| report.samples.last().unwrap().unbound_trainers;
    let (theirs, ours) = both(Experiment::case1, 30);
    assert!(unbound(&theirs) > 0, "EDL asks for more than fits");
    assert_eq!(unbound(&ours), 0);
}

#[test]
fn d15_online_pods_wait_in_line_with_trainers() {
    let (theirs, ours) = both(Experiment::case2, 5);
    assert!(theirs.steps.iter().any(|step| step.reached_after.is_none()));
    assert!(ours.steps.iter().all(|step| step.reached_after.is_some_and(|seconds| seconds <= 11)), "{:?}", ours.steps);
}
