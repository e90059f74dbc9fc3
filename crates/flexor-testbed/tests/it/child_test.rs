//! Runs a test again in a child process, to kill it there or to give it another environment.

use std::process::Command;

/// Set for the child only.
const CHILD: &str = "FLEXOR_TESTBED_CHILD";

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// A command that runs only the test with the path `name`.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
    command
}
