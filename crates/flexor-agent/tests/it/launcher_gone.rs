//! Workers do not outlive their launcher, and do not share its session.

use nix::sys::signal::Signal;

use crate::await_condition::{await_condition, is_alive};
use crate::launch::Launch;

#[test]
fn workers_die_with_a_launcher_that_is_killed() {
    let script = "trap '' TERM HUP; echo $$ > $NOTES/$LOCAL_RANK; while :; do sleep 0.05; done";
    let running = Launch::sh(&[script, script]).start();
    let workers = [running.pid("0"), running.pid("1")];
    assert!(workers.iter().all(|pid| is_alive(*pid)));
    running.signal(Signal::SIGKILL);
    await_condition("the end of the workers", || workers.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

#[test]
fn each_worker_leads_a_session_and_a_process_group() {
    // Group and session are the fifth and sixth field of proc(5).
    let script = "echo $$ > $NOTES/pid; cut -d' ' -f5,6 /proc/$$/stat > $NOTES/leads";
    let ended = Launch::sh(&[script]).run();
    let pid = ended.note("pid").unwrap();
    assert_eq!(ended.note("leads").unwrap(), format!("{pid} {pid}"));
    assert_eq!(ended.outcome.exits[0].pid.to_string(), pid, "the shim became the program");
}
