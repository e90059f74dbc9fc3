//! Runs a test again in a child process, to kill it there or to give it another environment.

use std::process::Command;

/// Set for the child only.
const CHILD: &str = "FLEXOR_TESTBED_CHILD";

/// Whether this process is the child.
pub(super) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// A command that runs only the test `name` (its path below `cluster::`).
pub(super) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("cluster::{name}"), "--exact", "--nocapture"]).env(CHILD, "1");
    command
}
