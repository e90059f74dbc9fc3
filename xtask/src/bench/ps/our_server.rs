//! A server process that ends with its owner, and how ours is started.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::case::Case;
use super::side::Programs;

/// A running server.
pub(super) struct RunningServer {
    process: Child,
    port: u16,
}

impl RunningServer {
    /// Starts a program that will serve at this port.
    pub(super) fn start(command: &mut Command, port: u16) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { process, port })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// A port that is free at the moment: ElasticDL's server cannot choose one itself.
pub(super) fn free_port() -> Result<u16> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(socket.local_addr()?.port())
}

/// Starts our server with ElasticDL's protocol.
pub(super) fn start(programs: &Programs, case: &Case) -> Result<RunningServer> {
    let (port, (opt_type, opt_args)) = (free_port()?, case.optimizer.arguments());
    let mut command = programs.cores.command(&programs.flexor);
    command.args(["ps", "--elasticdl", "--use-async", "--opt-type", opt_type, "--opt-args", opt_args]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    RunningServer::start(&mut command, port)
}
