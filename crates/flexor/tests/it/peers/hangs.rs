//! Tests a node that hangs and resumes.

use flexor_testbed::torch_or_skip;

use super::job::Job;

#[test]
fn a_node_that_hangs_is_left_behind_and_joins_as_a_newcomer_when_it_wakes() {
    let mut job = Job::start(torch_or_skip!(), 3);
    let old = job.workers();
    let hanging = job.take(1);
    hanging.stop();
    job.await_one_new_world(2, &old);
    job.await_decision("ConnectionLost");
    let round = job.status().round;

    let old = job.workers();
    hanging.wake();
    job.put_back(hanging);
    let steps = job.await_one_new_world(3, &old);
    assert_eq!(steps[2].rank, 2, "it comes last, as newcomers do");
    assert_eq!(job.status().round, round.map(|round| round + 1), "one round for the newcomer and none for its past");
}
