//! Tests `flexor sidecar`, alone and beside a killed master.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::program::{flexor, run};

/// No process listens on the discard port.
const NOBODY: &str = "127.0.0.1:9";

/// A server of ours that runs; killed when dropped.
struct Server {
    child: Child,
    /// The line that it printed when it served.
    line: serde_json::Value,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut child = flexor(args).args(["-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        Server { child, line: serde_json::from_str(&line).unwrap(), _stdout: stdout }
    }

    fn sidecar(upstream: &str) -> Server {
        Server::start(&["sidecar", "--listen", "127.0.0.1:0", "--upstream", upstream, "--pod", "worker-0"])
    }

    fn master(grpc: &str, state: &str) -> Server {
        let anywhere = "127.0.0.1:0";
        Server::start(&[
            "master", "--job", "mnist", "--nnodes", "1:2", "--state", state, "--grpc", grpc, "--store", anywhere,
            "--http", anywhere,
        ])
    }

    fn address(&self, what: &str) -> SocketAddr {
        self.line[what].as_str().unwrap().parse().unwrap()
    }

    fn end_with(&mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that has sent VALIDATE and PING, as torch does.
fn client(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.write_all(&[0, 0xce, 0xf7, 0x85, 0x3c, 13, 0x18, 0x7e, 0, 0]).unwrap();
    assert_eq!(read::<4>(&mut client), [0x18, 0x7e, 0, 0]);
    client
}

fn read<const N: usize>(client: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn add_one(client: &mut TcpStream) -> i64 {
    let request = [&[4, 2, 0, 0, 0, 0, 0, 0, 0][..], b"/n", &1i64.to_le_bytes()].concat();
    client.write_all(&request).unwrap();
    i64::from_le_bytes(read(client))
}

#[test]
fn a_sidecar_needs_no_master_to_take_clients() {
    let mut sidecar = Server::sidecar(NOBODY);
    let mut client = client(sidecar.address("listen"));
    assert_eq!(sidecar.end_with(Signal::SIGTERM), Some(0));
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "its clients are closed");
}

#[test]
fn ctrl_c_ends_with_130() {
    assert_eq!(Server::sidecar(NOBODY).end_with(Signal::SIGINT), Some(130));
}

#[test]
fn an_invalid_address_is_refused_at_once() {
    let ran = run(&["sidecar", "--listen", "127.0.0.1:0", "--upstream", "master"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("HOST:PORT"), "{}", ran.stderr);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let sidecar = Server::sidecar(NOBODY);
    let taken = sidecar.address("listen").to_string();
    let ran = run(&["sidecar", "--listen", &taken, "--upstream", NOBODY]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains(&taken) && ran.stderr.contains("cannot be listened on"), "{}", ran.stderr);
}

#[test]
fn a_client_outlives_a_killed_master() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let mut master = Server::master("127.0.0.1:0", state);
    let grpc = master.address("grpc").to_string();
    let sidecar = Server::sidecar(&grpc);
    let mut client = client(sidecar.address("listen"));
    for count in 1..=20 {
        assert_eq!(add_one(&mut client), count);
    }
    master.end_with(Signal::SIGKILL);
    let _master = Server::master(&grpc, state);
    assert_eq!(add_one(&mut client), 21, "each ADD counts once");
}
