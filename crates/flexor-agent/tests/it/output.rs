//! The output of workers that write much, little or nothing.

use std::fs;
use std::process::Stdio;

use flexor_agent::workers::ExitOutcome as Exit;
use nix::sys::signal::Signal;

use crate::launch::Launch;

const BOTH: &str = "echo out $LOCAL_RANK; echo err $LOCAL_RANK >&2";

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn without_options_output_is_the_launchers() {
    let ended = Launch::sh(&[BOTH, BOTH]).run();
    assert_eq!(sorted(&ended.stdout), ["out 0", "out 1"]);
    assert_eq!(sorted(&ended.stderr), ["err 0", "err 1"]);
    assert_eq!(ended.log(0, "stdout.log"), None);
}

#[test]
fn redirected_output_is_in_files_only() {
    let ended = Launch::sh(&[BOTH, BOTH]).with(|scenario| scenario.redirects = "0:3,1:2".to_owned()).run();
    assert_eq!(ended.stdout, "out 1\n");
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.log(0, "stdout.log").as_deref(), Some("out 0\n"));
    assert_eq!(ended.log(1, "stdout.log"), None);
    assert_eq!(ended.log(1, "stderr.log").as_deref(), Some("err 1\n"));
}

#[test]
fn teed_output_is_in_files_and_on_the_console_with_prefixes() {
    let ended = Launch::sh(&[BOTH, BOTH]).with(|scenario| scenario.tee = "3".to_owned()).run();
    assert_eq!(sorted(&ended.stdout), ["[trainer0]:out 0", "[trainer1]:out 1"]);
    assert_eq!(sorted(&ended.stderr), ["[trainer0]:err 0", "[trainer1]:err 1"]);
    assert_eq!(ended.log(1, "stdout.log").as_deref(), Some("out 1\n"));
    assert_eq!(ended.log(1, "stderr.log").as_deref(), Some("err 1\n"));
}

#[test]
fn a_filter_and_a_template_change_the_console_and_not_the_files() {
    let launch = Launch::sh(&[BOTH, BOTH]).with(|scenario| {
        scenario.tee = "1".to_owned();
        scenario.shown = Some(vec![1]);
        scenario.prefix = Some("${role_name}-${rank}> ".to_owned());
    });
    let ended = launch.run();
    assert_eq!(ended.stdout, "trainer-11> out 1\n");
    assert_eq!(ended.stderr, "err 1\n");
    assert_eq!(ended.log(0, "stdout.log").as_deref(), Some("out 0\n"));
}

#[test]
fn a_flood_does_not_grow_the_launcher() {
    const BYTES: u64 = 200_000_000;
    let lines = format!("yes 'a line of a program that never stops' | head -c {BYTES}");
    let one_line = format!("head -c {} /dev/zero", BYTES / 10);
    let running =
        Launch::sh(&[&lines, &one_line]).with(|scenario| scenario.tee = "1".to_owned()).start_to(Stdio::null());
    let ended = running.finish();
    assert!(ended.outcome.exits.iter().all(|exit| exit.outcome == Exit::Code(0)), "{:?}", ended.outcome.exits);
    let length = |rank: &str| fs::metadata(ended.attempt(0).join(rank).join("stdout.log")).unwrap().len();
    assert_eq!((length("0"), length("1")), (BYTES, BYTES / 10));
    assert!(ended.outcome.grown_kib < 8 << 10, "{} KiB", ended.outcome.grown_kib);
}

#[test]
fn a_worker_may_close_its_streams_and_run_on() {
    let script = "echo first; exec 1>&- 2>&-; sleep 0.1; echo > $NOTES/later; exit 4";
    let ended = Launch::sh(&[script]).with(|scenario| scenario.tee = "3".to_owned()).run();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Code(4));
    assert_eq!(ended.stdout, "[trainer0]:first\n");
    assert!(ended.note("later").is_some());
}

#[test]
fn a_console_without_a_reader_blocks_the_program_and_not_the_launcher() {
    let running = Launch::sh(&["echo $$ > $NOTES/pid; exec yes"])
        .with(|scenario| scenario.tee = "1".to_owned())
        .start_to(Stdio::piped());
    running.pid("pid");
    running.signal(Signal::SIGTERM);
    let ended = running.finish();
    assert_eq!(ended.outcome.exits[0].outcome, Exit::Signal(15));
}
