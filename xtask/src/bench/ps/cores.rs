//! Pins load and servers to separate cores, so that rows per second measure the server.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// How many cores the load has: one half; on a machine with one core all share it.
fn of_load() -> usize {
    (cores() / 2).max(1)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Moves this thread, and all that it starts from here on, to the cores of the load. Gives those of servers.
pub(super) fn divide() -> Result<ServerCores> {
    let (all, load) = (cores(), of_load());
    let mut set = CpuSet::new();
    (0..load).try_for_each(|core| set.set(core)).context("there are more cores than can be named")?;
    sched_setaffinity(Pid::from_raw(0), &set).context("cannot choose cores")?;
    Ok(ServerCores(format!("{}-{}", load.min(all - 1), all - 1)))
}

/// The cores of servers, as `taskset` names them.
pub(super) struct ServerCores(String);

impl ServerCores {
    /// A program that runs there.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.0]).arg(program.as_ref());
        command
    }
}
