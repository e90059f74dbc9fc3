//! Tests programs that leave processes behind: no process outlives a launch.

use nix::sys::signal::Signal;

use super::folder::{Folder, WAIT};
use super::launcher::{alone, await_gone, standalone};

/// A process in a session of its own whose parent has exited. It ends by itself after some time, in case a test fails.
const DAEMON: &str = "setsid sh -c 'sleep 200 & echo $! >> daemons' </dev/null >/dev/null 2>&1";

#[test]
fn daemons_are_gone_when_the_program_has_ended_well() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--nproc-per-node=2"], DAEMON);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let daemons = folder.lines("daemons");
    assert_eq!(daemons.len(), 2);
    daemons.iter().for_each(|pid| await_gone(pid));
}

#[test]
fn daemons_of_a_failed_attempt_are_gone_before_the_next_begins() {
    let folder = Folder::new();
    let script = format!(
        "[ -e daemons ] && {{ kill -0 $(cat daemons) && echo still there; exit 0; }}; {DAEMON}; \
         until [ -s daemons ]; do sleep 0.05; done; exit 1"
    );
    let ended = standalone(&folder, &["--max-restarts=1"], &script);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
}

#[test]
fn daemons_end_with_a_terminated_launcher() {
    let folder = Folder::new();
    let script = format!("{DAEMON}; {WAIT}");
    let launcher = alone(&folder, &[], &script);
    let daemons = folder.await_lines("daemons", 1);
    launcher.signal(Signal::SIGTERM);
    launcher.wait_for(130);
    await_gone(&daemons[0]);
}
