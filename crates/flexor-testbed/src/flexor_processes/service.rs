//! A Flexor server process: starts it, reads its addresses, stops and ends it.

use std::{fmt, process::Command, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;

use crate::{keeper::wait_until, python::PythonEnv, torchrun::node::Node};

/// How long a server may take until it serves, on a machine that is busy with other things.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// A running server that ends with its guard.
pub(super) struct Service {
    node: Node,
}

impl Service {
    /// Starts it and reads the line of JSON that it prints when it serves.
    pub(super) fn start<T: DeserializeOwned>(python: &PythonEnv, command: &mut Command) -> anyhow::Result<(Self, T)> {
        command.args(["-o", "json"]);
        let node = Node::start(Node::make_folder()?, python, command)?;
        let mut line = None;
        wait_until(START_DEADLINE, || {
            // In this order: the log then holds everything that it printed before it ended.
            let ended = node.exit_code().is_some();
            let log = node.log();
            let complete = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            line = complete.map(str::trim).find(|line| line.starts_with('{')).map(str::to_owned);
            line.is_some() || ended
        });
        let tried = || format!("{command:?}; its log ends with\n{}", node.log_tail());
        let Some(line) = line else { bail!("no word from {}", tried()) };
        let serves = serde_json::from_str(&line).map_err(|error| anyhow!("{line} ({error}) from {}", tried()))?;
        Ok((Self { node }, serves))
    }

    /// Ends it at once with SIGKILL.
    pub(super) fn kill(&self) {
        self.node.kill();
    }

    /// Lets it hang where it is; its connections stay open.
    pub(super) fn stop(&self) {
        self.node.signal_all(Signal::SIGSTOP);
    }

    /// Resumes it after [`Service::stop`].
    pub(super) fn wake(&self) {
        self.node.signal_all(Signal::SIGCONT);
    }

    pub(super) fn log(&self) -> String {
        self.node.log()
    }

    /// Its process id, as long as it runs.
    pub(super) fn pid(&self) -> anyhow::Result<u32> {
        self.node.command_pid().context("it has ended")
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({:?})", self.node.command_pid())
    }
}
