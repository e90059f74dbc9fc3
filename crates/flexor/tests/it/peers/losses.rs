//! Tests lost nodes: the remaining nodes continue, whichever node was lost.

use flexor_testbed::torch_or_skip;

use super::job::{DEADLINE, Job};

#[test]
fn the_others_go_on_when_a_node_is_killed() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let old = job.workers();
    job.take(1).kill();
    let steps = job.await_one_new_world(2, &old);
    assert_eq!(steps[0].rank, 0, "the node of rank 0 keeps it");
    assert_eq!(job.status().program_failures, 0, "a lost node is no failure of the program");
}

#[test]
fn the_others_go_on_when_the_node_of_rank_0_is_killed() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let old = job.workers();
    job.take(0).kill();
    let steps = job.await_one_new_world(2, &old);
    assert_eq!(steps[0].rank, 1, "a node keeps its rank where it still exists");
    assert_eq!(job.status().program_failures, 0);
}

#[test]
fn a_terminated_node_leaves_and_the_others_continue() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let old = job.workers();
    let leaving = job.take(2);
    leaving.agent().terminate().unwrap();
    job.await_one_new_world(2, &old);
    assert_ne!(leaving.agent().await_exit(DEADLINE).unwrap(), 0, "torchrun reports the signal");
    assert!(!job.status().closed, "a leaving node does not close the run for the others");
}

#[test]
fn a_spare_replaces_a_lost_node() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let before = job.workers();
    job.add();
    job.await_decision("SpareKept");
    assert_eq!(before.started_since(job.agents().next().unwrap()), [], "a spare restarts no worker");
    let old = job.workers();
    job.take(1).kill();
    let steps = job.await_one_new_world(3, &old);
    let ranks: Vec<_> = steps.iter().map(|step| (step.node.as_str(), step.rank)).collect();
    assert_eq!(ranks, [("node-0", 0), ("node-2", 2), ("node-3", 1)], "it takes the lost one's rank too");
}
