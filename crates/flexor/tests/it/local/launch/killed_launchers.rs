//! Tests killed launchers: all processes that their workers started end with them.

use std::os::unix::process::CommandExt as _;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::super::data::kills::{is_keeper, launcher_children};
use super::folder::{Folder, WAIT};
use super::launcher::{Launcher, alone, await_gone, launch};

/// One process in its own session, one beside it, and the worker itself; `family` lists their ids. They end by
/// themselves after some time, in case a test fails.
const FAMILY: &str =
    "setsid sleep 200 & echo $! >> family; sleep 200 & echo $! >> family; echo $$ >> family; sleep 200";

/// The process beside the workers.
fn keeper(launcher: &Launcher) -> Pid {
    launcher_children(launcher.id()).into_iter().find(|child| is_keeper(*child)).expect("a launcher has a keeper")
}

#[test]
fn no_process_of_a_killed_launcher_is_left() {
    let folder = Folder::new();
    let launcher = alone(&folder, &["--nproc-per-node=2"], FAMILY);
    let family = folder.await_lines("family", 6);
    let keeper = keeper(&launcher);
    launcher.signal(Signal::SIGKILL);
    family.iter().for_each(|pid| await_gone(pid));
    await_gone(&keeper.to_string());
}

#[test]
fn a_launch_that_ends_well_leaves_no_keeper() {
    let folder = Folder::new();
    let launcher = alone(&folder, &[], &format!("echo ready; {WAIT}"));
    launcher.await_stdout("ready", 1);
    let keeper = keeper(&launcher);
    folder.let_go();
    launcher.wait_for(0);
    await_gone(&keeper.to_string());
}

#[test]
fn a_signal_to_the_foreground_group_does_not_end_the_keeper_before_its_launcher() {
    let folder = Folder::new();
    let script = format!("trap 'echo asked' INT TERM; {FAMILY}; {WAIT}");
    let mut command = launch(&folder, ["--standalone", "sh", "-c", &script]);
    let launcher = Launcher::start(command.process_group(0));
    let family = folder.await_lines("family", 3);
    let keeper = keeper(&launcher);
    killpg(launcher.id(), Signal::SIGINT).unwrap();
    launcher.await_stdout("asked", 1);
    kill(keeper, None).expect("it lives");
    kill(keeper, Signal::SIGTERM).unwrap();
    launcher.signal(Signal::SIGKILL);
    family.iter().for_each(|pid| await_gone(pid));
    await_gone(&keeper.to_string());
}
