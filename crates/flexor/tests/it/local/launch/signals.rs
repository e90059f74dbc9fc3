//! Tests launchers that get SIGINT or SIGTERM.

use nix::sys::signal::Signal;

use super::super::faults::deadline::eventually;
use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, alone, await_gone, end_well};

/// Prints the signal that it got, and ends.
fn polite() -> String {
    format!("trap 'echo got TERM; exit 0' TERM; trap 'echo got INT; exit 0' INT; echo ready; {WAIT}")
}

/// Ignores signals, and writes its identity.
fn stubborn() -> String {
    format!("trap 'echo asked' TERM INT; echo $$ >> stubborn; echo ready; {WAIT}")
}

#[test]
fn the_signal_is_passed_on_and_the_launcher_ends_with_130() {
    for (signal, got) in [(Signal::SIGTERM, "got TERM"), (Signal::SIGINT, "got INT")] {
        let folder = Folder::new();
        let launcher = alone(&folder, &["--nproc-per-node=2"], &polite());
        launcher.await_stdout("ready", 2);
        launcher.signal(signal);
        let ended = launcher.wait_for(130);
        assert_eq!(ended.stdout.matches(got).count(), 2, "{}", ended.stdout);
        assert!(ended.stderr.contains(&format!("ended by {signal}")), "{}", ended.stderr);
        assert!(!ended.stderr.contains("Root cause"), "nothing failed: {}", ended.stderr);
    }
}

#[test]
fn only_the_signals_that_are_asked_for_are_passed_on() {
    let folder = Folder::new();
    let script = format!("trap 'echo got USR1; exit 0' USR1; echo ready; {WAIT}");
    let launcher = alone(&folder, &["--signals-to-handle=SIGUSR1"], &script);
    launcher.await_stdout("ready", 1);
    launcher.signal(Signal::SIGUSR1);
    assert!(launcher.wait_for(130).stdout.contains("got USR1"));
}

#[test]
fn a_program_that_does_not_listen_is_killed_when_its_time_is_up() {
    let folder = Folder::new();
    let launcher = alone(&folder, &["--shutdown-timeout=1"], &stubborn());
    launcher.await_stdout("ready", 1);
    launcher.signal(Signal::SIGTERM);
    let ended = launcher.wait_for(130);
    assert!(ended.stderr.contains("did not end in time and were killed"), "{}", ended.stderr);
    await_gone(&folder.lines("stubborn")[0]);
}

#[test]
fn a_second_signal_leaves_no_time() {
    let folder = Folder::new();
    // No test would wait that long.
    let launcher = alone(&folder, &["--shutdown-timeout=100000"], &stubborn());
    launcher.await_stdout("ready", 1);
    launcher.signal(Signal::SIGINT);
    // Pending signals of one kind merge into one.
    launcher.await_stdout("asked", 1);
    launcher.signal(Signal::SIGINT);
    launcher.wait_for(130);
    await_gone(&folder.lines("stubborn")[0]);
}

#[test]
fn a_launcher_that_still_waits_for_others_ends_at_once() {
    let job = Job::start("2", "0");
    let launcher = job.node(1, "echo started");
    eventually("the node at the master", || (job.master.members() == 1).then_some(()));
    launcher.signal(Signal::SIGTERM);
    assert_eq!(launcher.wait_for(130).stdout, "");
}

#[test]
fn the_others_continue_without_a_terminated_node() {
    let job = Job::start("2:3", "0");
    let script = format!("echo $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT >> told; {WAIT}");
    let [leaving, b, c] = [(); 3].map(|()| job.node(1, &script));
    assert_eq!(job.folder.await_lines("told", 3), ["3 0"; 3]);
    leaving.signal(Signal::SIGTERM);
    leaving.wait_for(130);
    assert_eq!(job.folder.await_lines("told", 5)[3..], ["2 0"; 2], "started again, and nothing charged");
    job.folder.let_go();
    end_well([b, c]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

/// Ends its workers while a master of another job takes the address: the launcher must not even contact it.
fn joins_nothing(job: &mut Job, launcher: Launcher) {
    job.master.end_with(Signal::SIGKILL);
    launcher.signal(Signal::SIGINT);
    launcher.await_stdout("asked", 1);
    job.start_master_of("another");
    let ended = launcher.wait_for(130);
    assert!(ended.stderr.contains("ends its workers"), "{}", ended.stderr);
    assert!(!job.master.log().contains("joined run="), "{}", job.master.log());
}

#[test]
fn a_terminated_launcher_joins_no_world_however_slowly_its_workers_end() {
    let mut job = Job::start("1", "0");
    let slow = format!("trap 'echo asked; sleep 3; exit 0' INT; echo ready; {WAIT}");
    let node = Launcher::start(job.command_for(&[]).args(["sh", "-c", &slow]));
    node.await_stdout("ready", 1);
    joins_nothing(&mut job, node);
}

#[test]
fn a_launcher_terminated_during_a_world_change_joins_no_world() {
    let job = Job::start("1:2", "0");
    job.expect(1);
    let slow = format!("trap 'echo asked; sleep 3; exit 0' TERM; echo ready; {WAIT}");
    let leaving = job.node(1, &slow);
    leaving.await_stdout("ready", 1);
    job.expect(2);
    let staying = job.node(1, &format!("echo $WORLD_SIZE >> sizes; {WAIT}"));
    // The world changes, and its worker takes its time.
    leaving.await_stdout("asked", 1);
    job.expect(1);
    leaving.signal(Signal::SIGINT);
    let ended = leaving.wait_for(130);
    assert_eq!(ended.stdout.matches("ready").count(), 1, "{}", ended.stdout);
    assert_eq!(job.folder.await_lines("sizes", 1), ["1"], "no node was in a world with it");
    job.folder.let_go();
    end_well([staying]);
}

#[test]
fn a_first_signal_keeps_the_grace_period_of_workers_that_end_for_a_world_change() {
    let job = Job::start("1:2", "0");
    job.expect(1);
    let saving = format!("trap 'echo asked; sleep 2; echo saved; exit 0' TERM INT; echo ready; {WAIT}");
    let leaving = job.node(1, &saving);
    leaving.await_stdout("ready", 1);
    job.expect(2);
    let other = job.node(1, WAIT);
    leaving.await_stdout("asked", 1);
    leaving.signal(Signal::SIGTERM);
    leaving.await_stderr("another signal kills them");
    let ended = leaving.wait_for(130);
    assert_eq!((ended.stdout.matches("asked").count(), ended.stdout.matches("saved").count()), (1, 1), "{ended:?}");
    job.expect(1);
    job.folder.let_go();
    end_well([other]);
}

#[test]
fn a_second_signal_kills_workers_that_end_for_a_world_change() {
    let job = Job::start("1:2", "0");
    job.expect(1);
    let leaving = Launcher::start(job.command().args(["--shutdown-timeout=100000", "sh", "-c", &stubborn()]));
    leaving.await_stdout("ready", 1);
    job.expect(2);
    let _other = job.node(1, WAIT);
    leaving.await_stdout("asked", 1);
    leaving.signal(Signal::SIGTERM);
    leaving.await_stderr("another signal kills them");
    leaving.signal(Signal::SIGTERM);
    leaving.wait_for(130);
    await_gone(&job.folder.lines("stubborn")[0]);
}
