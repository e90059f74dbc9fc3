//! Tests a lost master that restarts on its journal.

use std::{thread, time::Duration};

use flexor_testbed::torch_or_skip;

use super::job::Job;

/// Longer than torchrun's agents consider each other alive; `bench recovery` has the outage of a minute.
const OUTAGE: Duration = Duration::from_secs(20);

#[test]
fn no_worker_notices_that_the_master_was_killed_and_started_again() {
    let mut job = Job::start(torch_or_skip!(), 2);
    let old = job.workers();
    let round = job.status().round;
    job.master.start_again().unwrap();
    assert_eq!(job.master.generation(), 2);
    // After the time in which sidecars must return.
    job.await_more_steps(30);
    job.assert_nobody_restarted(&old);
    assert_eq!((job.status().round, job.status().world_size), (round, 2));
}

#[test]
fn after_an_outage_a_newcomer_makes_one_world_and_not_two() {
    let mut job = Job::start(torch_or_skip!(), 2);
    let old = job.workers();
    job.master.kill();
    thread::sleep(OUTAGE);
    job.assert_nobody_restarted(&old);
    job.master.start_again().unwrap();
    job.add();
    job.await_one_new_world(3, &old);
    assert_eq!(job.status().world_size, 3);
}
