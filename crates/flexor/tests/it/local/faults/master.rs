//! A master in a process of its own that a test can restart on the same journal and ports.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use super::http;
use super::process::{Process, server};

/// The job of every master here; also the run that agents join.
pub const JOB: &str = "mnist";

/// Where a master listens.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub grpc: SocketAddr,
    pub store: SocketAddr,
    pub http: SocketAddr,
}

impl Ports {
    /// Ports that the kernel chooses.
    pub fn free() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { grpc: any, store: any, http: any }
    }
}

/// A master that serves.
pub struct Master {
    process: Process,
    pub ports: Ports,
}

/// The arguments of a master for worlds of these sizes.
pub fn master(world: &str, ports: Ports) -> Command {
    let [grpc, store, http] = [ports.grpc, ports.store, ports.http].map(|address| address.to_string());
    let mut command = server(&["master", "--job", JOB, "--nnodes", world, "--max-restarts", "1000000", "-o", "json"]);
    command.args(["--grpc", &grpc, "--store", &store, "--http", &http]);
    command
}

impl Master {
    /// One that forgets everything.
    pub fn start(world: &str) -> Self {
        Self::run(&mut master(world, Ports::free()))
    }

    /// A master with a journal.
    pub fn on(state: &Path, world: &str) -> Self {
        Self::at(Ports::free(), state, world)
    }

    /// A master with a journal, at known ports.
    pub fn at(ports: Ports, state: &Path, world: &str) -> Self {
        Self::run(master(world, ports).arg("--state").arg(state))
    }

    /// Whatever master the command starts.
    pub fn run(command: &mut Command) -> Self {
        let process = Process::start(command);
        let [grpc, store, http] = ["grpc", "store", "http"].map(|name| process.address(name));
        Self { process, ports: Ports { grpc, store, http } }
    }

    /// The generation of its journal.
    pub fn generation(&self) -> u64 {
        self.process.number("generation")
    }

    pub fn status(&self) -> serde_json::Value {
        let (code, body) = http::get(self.ports.grpc, "/api/status");
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub fn ready(&self) -> (u16, String) {
        http::get(self.ports.http, "/ready")
    }

    /// How many of the run's nodes the master considers alive.
    pub fn members(&self) -> usize {
        self.status()["runs"][0]["members"].as_array().map_or(0, Vec::len)
    }
}

impl Deref for Master {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Master {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
