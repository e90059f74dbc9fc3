//! Tests how jobs end: successfully, with a node lost at the end, or closed because the program always fails.

use std::time::Duration;

use flexor_testbed::{torch_or_skip, torchrun::ProbeEventKind};

use super::job::{DEADLINE, Job, master};

#[test]
fn nodes_in_the_exit_barrier_are_released_when_another_is_lost() {
    const LINGERS: usize = 2;
    let mut job = Job::start_with(torch_or_skip!(), 3, master("2:3"), |config, number| {
        let linger = if number == LINGERS { Duration::from_secs(600) } else { Duration::ZERO };
        config.args(["--steps", "3"]).linger(linger)
    });
    let lingering = job.take(LINGERS);
    lingering.agent().await_event(DEADLINE, |event| event.kind == ProbeEventKind::End).unwrap();
    for agent in job.agents() {
        agent.await_event(DEADLINE, |event| event.kind == ProbeEventKind::End).unwrap();
        agent.await_no_workers(DEADLINE).unwrap();
        assert_eq!(agent.exit_code(), None, "it waits for the one that lingers");
    }
    lingering.kill();
    for agent in job.agents() {
        assert_eq!(agent.await_exit(DEADLINE).unwrap(), 0, "{}", agent.log());
    }
}

#[test]
fn a_program_that_always_fails_ends_with_the_run_closed_and_the_reason() {
    let config = master("2:2").max_restarts(1);
    let job = Job::start_with(torch_or_skip!(), 2, config, |config, _| config.env("PROBE_FAILS_AT", "2"));
    for agent in job.agents() {
        assert_ne!(agent.await_exit(DEADLINE).unwrap(), 0, "{}", agent.log());
    }
    let status = job.status();
    assert!(status.closed);
    assert_eq!((status.program_failures, status.status.reason.as_str()), (2, "RestartsExhausted"), "{status:?}");
    for agent in job.agents() {
        let starts = agent.events().iter().filter(|event| event.kind == ProbeEventKind::Start).count();
        assert_eq!(starts, 2, "once, and once again: {}", agent.name());
    }
}
