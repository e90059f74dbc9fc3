//! Tests nodes that join a running job.

use flexor_testbed::torch_or_skip;

use super::job::Job;

#[test]
fn one_more_node_is_taken_in_with_one_restart() {
    let mut job = Job::start(torch_or_skip!(), 2);
    let old = job.workers();
    job.add();
    let steps = job.await_one_new_world(3, &old);
    let ranks: Vec<_> = steps.iter().map(|step| step.rank).collect();
    assert_eq!(ranks, [0, 1, 2], "the newcomer comes last");
}

#[test]
fn a_replacement_brings_the_job_back_to_its_size_with_one_restart() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let old = job.workers();
    job.take(1).kill();
    job.await_one_new_world(2, &old);
    let old = job.workers();
    job.add();
    job.await_one_new_world(3, &old);
    assert_eq!(job.status().program_failures, 0);
}
