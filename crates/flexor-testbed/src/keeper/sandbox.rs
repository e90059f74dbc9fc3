//! Where a cluster's programs run, and how they are started and ended there.
//!
//! `nsenter` into a process-id namespace forks: the program is its child, and killing `nsenter` would leave the program
//! running. [`RunningProgram`] handles the difference.

use std::{
    fs::File,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::process_table;

/// How long `nsenter` may take from its start to its fork.
const FORK_DEADLINE: Duration = Duration::from_secs(2);

/// The variables that make Go programs call a proxy for every address but loopback.
const PROXY_VARIABLES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Where the programs of one cluster run.
#[derive(Debug, Clone)]
pub(crate) enum Sandbox {
    /// In network, mount and process-id namespaces of their own.
    Namespaces {
        /// Process id, as the host counts, of a process that lives as long as they do.
        init: u32,
        /// The network namespace.
        network: Arc<File>,
    },
    /// On the host's loopback, together in one process group.
    Loopback {
        /// The group's id.
        group: i32,
    },
}

impl Sandbox {
    /// The namespaces of the process `init`, a process id as the host counts.
    pub(crate) fn namespaces(init: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{init}/ns/net");
        let network = Arc::new(File::open(&path).with_context(|| format!("open {path}"))?);
        Ok(Self::Namespaces { init, network })
    }

    /// A command that runs in this sandbox and ends with it.
    pub(crate) fn owned_command(&self, program: &Path) -> Command {
        let mut command = match self {
            Self::Namespaces { init, .. } => {
                let mut command = nsenter(*init);
                command.args(["--pid", "--mount", "--"]).arg(program).process_group(0);
                // No proxy can be reached from in there.
                for name in PROXY_VARIABLES {
                    command.env_remove(name);
                }
                command
            }
            Self::Loopback { group } => {
                let mut command = Command::new(program);
                command.process_group(*group);
                command
            }
        };
        command.stdin(Stdio::null());
        command
    }

    /// A command of the caller's that shares only this sandbox's network.
    pub(crate) fn network_command(&self, program: &Path) -> Command {
        match self {
            Self::Namespaces { init, .. } => {
                let mut command = nsenter(*init);
                command.arg("--").arg(program);
                command
            }
            Self::Loopback { .. } => Command::new(program),
        }
    }
}

fn nsenter(init: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &init.to_string(), "--net"]);
    command
}

/// A program that was started with [`Sandbox::owned_command`].
#[derive(Debug)]
pub(crate) struct RunningProgram {
    child: Child,
    forked: bool,
}

impl RunningProgram {
    /// Starts `command`, which came from [`Sandbox::owned_command`] of `sandbox`.
    pub(crate) fn spawn(sandbox: &Sandbox, command: &mut Command) -> std::io::Result<Self> {
        let child = command.spawn()?;
        Ok(Self { child, forked: matches!(sandbox, Sandbox::Namespaces { .. }) })
    }

    /// Its exit status, if it has exited.
    pub(crate) fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Process id of the program itself, as the host counts.
    pub(crate) fn pid(&self) -> Option<u32> {
        if self.forked { process_table::child_of(self.child.id()) } else { Some(self.child.id()) }
    }

    /// Ends it with SIGKILL and waits for its end.
    pub(crate) fn kill(mut self) -> std::io::Result<()> {
        // The id of a program that has ended may be another's by now.
        if self.ended().is_some() {
            return Ok(());
        }
        // Just after its start `nsenter` has not forked yet.
        let mut pid = None;
        super::wait_until(FORK_DEADLINE, || {
            pid = self.pid();
            pid.is_some() || self.ended().is_some()
        });
        if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) | Err(nix::Error::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.child.wait().map(drop)
    }
}
