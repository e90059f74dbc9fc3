//! A test job: a master with a journal, and launchers that join it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use flexor_model::env;

use super::super::faults::deadline::PATIENCE;
use super::super::faults::master::{JOB, Master, Ports};
use super::super::faults::process::server;
use super::folder::Folder;
use super::launcher::{Launcher, launch};

/// A job. Its launchers run in its folder.
pub struct Job {
    pub master: Master,
    pub folder: Folder,
    sizes: &'static str,
    restarts: &'static str,
}

impl Job {
    /// A job with worlds of these sizes and this many allowed failures.
    pub fn start(sizes: &'static str, restarts: &'static str) -> Self {
        let folder = Folder::new();
        let master = Master::run(&mut master(&folder, JOB, Ports::free(), sizes, restarts));
        Self { master, folder, sizes, restarts }
    }

    /// Starts the master again on its journal, where it was.
    pub fn start_master_again(&mut self) {
        self.start_master_of(JOB);
    }

    /// Starts the master of a job where this one's was: its own again, or another's.
    pub fn start_master_of(&mut self, job: &str) {
        self.master = Master::run(&mut master(&self.folder, job, self.master.ports, self.sizes, self.restarts));
    }

    /// Starts one more node with this many processes of a script.
    pub fn node(&self, processes: usize, script: &str) -> Launcher {
        let processes = processes.to_string();
        Launcher::start(self.command().args(["--nproc-per-node", &processes, "sh", "-c", script]))
    }

    /// The command of a node, without its own options and its program.
    pub fn command(&self) -> Command {
        self.command_for(&["--rdzv-id", JOB])
    }

    /// The same, with these options for the job.
    pub fn command_for(&self, job: &[&str]) -> Command {
        let endpoint = self.master.ports.grpc.to_string();
        let rendezvous = ["--nnodes", self.sizes, "--rdzv-backend=c10d", "--rdzv-endpoint", &endpoint];
        launch(&self.folder, rendezvous.iter().chain(job))
    }

    /// Sets the number of expected nodes at the master.
    pub fn expect(&self, nodes: usize) {
        self.post("/api/expected", &format!(r#"{{"nodes":{nodes}}}"#));
    }

    /// A POST to the master; returns its answer.
    pub fn post(&self, path: &str, body: &str) -> String {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json");
        let mut socket = TcpStream::connect(self.master.ports.grpc).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(socket, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        answer
    }

    /// The file that names the faults for the master to inject into itself.
    pub fn faults(&self) -> PathBuf {
        faults(&self.folder)
    }

    /// The state of its run, from `/api/status`.
    pub fn run(&self) -> serde_json::Value {
        self.master.status()["runs"][0].clone()
    }
}

fn master(folder: &Folder, job: &str, ports: Ports, sizes: &str, restarts: &str) -> Command {
    let world = sizes.to_string();
    let mut command = server(&["master", "--job", job, "--nnodes", &world, "--max-restarts", restarts, "-o", "json"]);
    for (option, address) in [("--grpc", ports.grpc), ("--store", ports.store), ("--http", ports.http)] {
        command.arg(option).arg(address.to_string());
    }
    command.arg("--state").arg(folder.path().join(format!("state-{job}"))).env(env::FAULTS.name, faults(folder));
    command
}

fn faults(folder: &Folder) -> PathBuf {
    folder.path().join("faults.json")
}
