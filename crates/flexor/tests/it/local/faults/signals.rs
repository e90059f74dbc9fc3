//! Tests how servers start, and how they end on a signal.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::deadline::eventually;
use super::master::Master;
use super::node::Node;
use super::process::Process;
use super::worlds::Worlds;

/// Prompt, for a process on a busy machine. A server that waited for its connections would never end.
const PROMPT: Duration = Duration::from_secs(10);

#[test]
fn a_master_starts_at_once_and_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::on(folder.path(), "2:4");
    println!("the first line after {:?}, {} MiB", master.started_in, master.memory());
    assert!(master.started_in < PROMPT);
    assert!(master.memory() < 64);
}

#[test]
fn asked_to_end_both_servers_do_so_promptly_and_with_0() {
    let (folder, worlds) = (tempfile::tempdir().unwrap(), Worlds::default());
    let mut master = Master::on(folder.path(), "1:2");
    let mut sidecar = Process::sidecar("pod-a", master.ports.grpc);
    let nodes = Node::world([("a", sidecar.address("listen")), ("b", master.ports.store)], &worlds);

    let start = Instant::now();
    assert_eq!(sidecar.end_with(Signal::SIGTERM), Some(0));
    println!("the sidecar ended after {:?}", start.elapsed());
    assert!(start.elapsed() < PROMPT);
    // The pod's node has no timeout: the sidecar has reported its end.
    assert_eq!(nodes[1].await_world(1, 1).round, 1);
    assert!(start.elapsed() < 2 * PROMPT, "{:?}", start.elapsed());

    let start = Instant::now();
    assert_eq!(master.end_with(Signal::SIGTERM), Some(0));
    println!("the master ended after {:?}", start.elapsed());
    assert!(start.elapsed() < PROMPT);
    eventually("the end of its connections", || nodes[1].error());
}
