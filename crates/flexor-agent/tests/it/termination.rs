//! The signal ladder, with workers that resist it.

use std::time::Duration;

use flexor_agent::workers::ExitOutcome as Exit;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::await_condition::{await_condition, is_alive};
use crate::launch::{Ended, Launch};

const NONE: [i32; 0] = [];

/// The ids of processes that had to be killed.
fn killed(ended: &Ended) -> Vec<i32> {
    assert_eq!(ended.outcome.termination.left, NONE);
    ended.outcome.termination.killed.clone()
}

#[test]
fn a_worker_that_obeys_sigterm_ends_the_wait() {
    let running = Launch::sh(&["echo $$ > $NOTES/pid; exec sleep 600"]).start();
    let pid = running.pid("pid");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(15));
    assert!(ended.outcome.exits[0].during_shutdown);
    assert_eq!(killed(&ended), NONE);
    assert!(ended.outcome.termination.took < Duration::from_secs(30), "{:?}", ended.outcome.termination);
    assert!(!is_alive(pid));
}

#[test]
fn a_worker_that_ignores_sigterm_is_killed_after_the_grace() {
    let running = Launch::sh(&["trap '' TERM; echo $$ > $NOTES/pid; while :; do sleep 0.05; done"])
        .with(|scenario| scenario.grace_ms = 300)
        .start();
    let pid = running.pid("pid");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(9));
    assert!(killed(&ended).contains(&pid), "{:?}", ended.outcome.termination);
    assert!(ended.outcome.termination.took >= Duration::from_millis(300));
}

#[test]
fn a_stopped_worker_gets_the_signal_too() {
    let running = Launch::sh(&["echo $$ > $NOTES/pid; kill -STOP $$; sleep 600"]).start();
    running.pid("pid");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(15));
    assert_eq!(killed(&ended), NONE);
}

/// Forks twice with a session in between, as daemons do, and notes the daemon's id.
const DAEMON: &str = r#"
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(os.environ["NOTES"] + "/daemon", "w") as note: note.write(f"{os.getpid()}\n")
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(os.environ["NOTES"] + "/daemon"): time.sleep(0.01)
"#;

fn daemon(kind: &str) -> Launch {
    let mut launch = Launch::python(DAEMON);
    launch.scenario.workers[0].push(kind.to_owned());
    launch
}

#[test]
fn a_daemon_does_not_outlive_its_worker() {
    let ended = daemon("obedient").run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(0), "{}", ended.stderr);
    assert_eq!(killed(&ended), NONE);
    assert!(!is_alive(ended.note("daemon").unwrap().parse().unwrap()));
}

#[test]
fn a_daemon_that_ignores_sigterm_is_killed() {
    let ended = daemon("stubborn").with(|scenario| scenario.grace_ms = 200).run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(0), "{}", ended.stderr);
    let pid = ended.note("daemon").unwrap().parse().unwrap();
    assert_eq!(killed(&ended), [pid]);
    assert!(!is_alive(pid));
}

#[test]
fn a_child_in_a_session_of_its_own_is_ended_with_its_worker() {
    let script = r#"
import os, subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open(os.environ["NOTES"] + "/child", "w") as note: note.write(f"{child.pid}\n")
child.wait()
"#;
    let running = Launch::python(script).start();
    let child = running.pid("child");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(killed(&ended), NONE);
    assert!(!is_alive(child));
}

#[test]
fn a_process_started_while_its_parent_ends_gets_the_signal_too() {
    let script = "trap 'sleep 600 & echo $! > $NOTES/late; exit 0' TERM; echo > $NOTES/ready; \
                  while :; do sleep 0.05; done";
    let running = Launch::sh(&[script]).start();
    running.note("ready");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(0));
    assert_eq!(killed(&ended), NONE);
    assert!(ended.outcome.termination.took < Duration::from_secs(30), "{:?}", ended.outcome.termination);
    assert!(!is_alive(ended.note("late").unwrap().parse().unwrap()));
}

#[test]
fn a_program_that_keeps_forking_is_killed() {
    // Ends by itself if the launcher fails to kill it.
    let script = r#"
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 30
with open(os.environ["NOTES"] + "/ready", "w") as note: note.write("\n")
while time.monotonic() < until:
    if os.fork(): os._exit(0)
with open(os.environ["NOTES"] + "/escaped", "w") as note: note.write("\n")
"#;
    let ended = Launch::python(script).with(|scenario| scenario.grace_ms = 200).run();
    assert!(!killed(&ended).is_empty(), "{:?}", ended.outcome.termination);
    assert_eq!(ended.note("escaped"), None);
    assert!(ended.outcome.termination.took < Duration::from_secs(10), "{:?}", ended.outcome.termination);
}

#[test]
fn a_second_signal_ends_the_grace_period() {
    let script = "trap 'echo > $NOTES/asked' TERM; echo $$ > $NOTES/pid; while :; do sleep 0.05; done";
    let running = Launch::sh(&[script]).start();
    let pid = running.pid("pid");
    running.signal(Signal::SIGTERM);
    running.note("asked");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(9));
    assert!(killed(&ended).contains(&pid), "{:?}", ended.outcome.termination);
    assert!(ended.outcome.termination.took < Duration::from_secs(30), "{:?}", ended.outcome.termination);
}

#[test]
fn a_group_that_is_dropped_leaves_nothing_running() {
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ > $NOTES/child; while :; do sleep 0.05; done' & \
                  until [ -s $NOTES/child ]; do sleep 0.01; done; exit 1";
    let ended = Launch::sh(&[script]).with(|scenario| scenario.drops_the_group = true).run();
    let child = ended.note("child").unwrap().parse().unwrap();
    await_condition("the end of the child", || (!is_alive(child)).then_some(()));
}

#[test]
fn one_group_follows_another() {
    let ended = Launch::sh(&["echo $LOCAL_RANK", "echo $LOCAL_RANK"])
        .with(|scenario| (scenario.attempts, scenario.redirects) = (3, "1".to_owned()))
        .run();
    assert_eq!(ended.outcome.refused, None);
    assert_eq!(ended.outcome.exits.len(), 2);
    for attempt in 0..3 {
        let log = std::fs::read_to_string(ended.attempt(attempt).join("1/stdout.log")).unwrap();
        assert_eq!(log, "1\n");
    }
}

#[test]
fn children_that_were_there_before_the_workers_are_left_alone() {
    let launch = Launch::sh(&["echo > $NOTES/ready; exec sleep 600"]);
    let running = launch.start_by("sleep 600 & echo $! > $NOTES/bystander; exec \"$@\"");
    let bystander = Owned(running.pid("bystander"));
    running.note("ready");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert!(is_alive(bystander.0));
    assert_eq!(killed(&ended), NONE);
    assert!(ended.outcome.termination.took < Duration::from_secs(30), "{:?}", ended.outcome.termination);
}

/// A process that is not our child and ends with the test.
struct Owned(i32);

impl Drop for Owned {
    fn drop(&mut self) {
        // It may have ended already.
        _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
    }
}
