//! The throughput of a store: ours against torch's own libuv server, for the same clients.
//!
//! There are three processes: our server, torch's, and the load (`store_load` of `flexor-store`), which uses one of
//! them at a time. Waking many clients is mostly the kernel's work, 7 to 9 µs for each byte sent to another client.
//! Torch's server does it on one core, ours on all cores, so two cores can at best halve the time.

mod network;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;

use self::server::Server;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

const PEER: &str = "torch's libuv TCPStore";

/// A number that a load measures, and the ratio to reach.
struct Metric {
    load: &'static str,
    number: &'static str,
    about: &'static str,
    target: f64,
}

const fn metric(load: &'static str, number: &'static str, about: &'static str, target: f64) -> Metric {
    Metric { load, number, about, target }
}

/// Metrics of one load are adjacent: the load runs once for all of them.
const METRICS: &[Metric] = &[
    metric("add-pipelined", "all", "300,000 ADD, pipelined on 1 connection", 1.0),
    metric("set-pipelined", "all", "2,000,000 SET of 64 bytes, pipelined on 1 connection", 1.0),
    metric("get-pipelined", "all", "300,000 GET of 64 bytes, pipelined on 1 connection", 1.0),
    metric("wait-pipelined", "all", "300,000 WAIT for a key that is there, pipelined on 1 connection", 1.0),
    metric("add-ping-pong", "all", "20,000 ADD, one after the other on 1 connection", 1.0),
    metric("add-ping-pong", "p50", "ADD, one after the other on 1 connection: p50", 1.0),
    metric("add-ping-pong", "p99", "ADD, one after the other on 1 connection: p99", 1.0),
    metric("get-large", "all", "4,000 GET of 130 kB, one after the other on 1 connection", 1.0),
    metric("wake-1000", "last-byte", "1 SET wakes 1,000 clients: until the last has its byte", 3.0),
    metric("wake-10000", "last-byte", "1 SET wakes 10,000 clients: until the last has its byte", 3.0),
    metric("storm", "all-answered", "5,000 clients connect at once: until all are answered", 1.0),
    metric("crowd-ping-pong", "all", "100,000 ADD by 1,000 clients", 1.0),
    metric("crowd-ping-pong", "p99", "ADD by 1,000 clients: p99", 1.0),
];

/// The measurements of one side, by load and number.
type Measured = BTreeMap<(&'static str, String), Vec<f64>>;

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let root = project_root()?;
    let (store, load) = programs(&root)?;
    let torch = Torch::ensure()?;
    network::leave_for_loopback()?;
    let ours = Server::start(Command::new(store))?;
    let mut libuv = torch.command();
    libuv.args(["-c", include_str!("store/libuv_store.py")]);
    let peer = Server::start(libuv)?;

    let (mut our_numbers, mut peer_numbers) = (Measured::new(), Measured::new());
    for together in METRICS.chunk_by(|one, next| one.load == next.load) {
        let name = together[0].load;
        for _ in 0..repeats {
            for (server, numbers) in [(&ours, &mut our_numbers), (&peer, &mut peer_numbers)] {
                for (number, value) in put_on(&load, server, name)? {
                    numbers.entry((name, number)).or_default().push(value);
                }
            }
        }
    }
    let most = |numbers: &Measured| {
        let samples = numbers.get(&("wake-10000", "memory".to_owned()));
        samples.into_iter().flatten().copied().fold(0.0, f64::max)
    };
    let (our_memory, peer_memory) = (most(&our_numbers), most(&peer_numbers));
    println!("memory per idle connection: flexor {our_memory:.0} bytes, {PEER} {peer_memory:.0} bytes");
    METRICS.iter().map(|metric| row(metric, &our_numbers, &peer_numbers)).collect()
}

fn row(metric: &Metric, ours: &Measured, peer: &Measured) -> Result<Row> {
    let key = (metric.load, metric.number.to_owned());
    let samples = |numbers: &'_ Measured| numbers.get(&key).cloned();
    let (ours, peer) =
        samples(ours).zip(samples(peer)).with_context(|| format!("{} was not measured", metric.about))?;
    Row::seconds(metric.about, &ours, PEER, &peer, metric.target)
}

/// Our server and the load, built as users run them.
fn programs(root: &Path) -> Result<(PathBuf, PathBuf)> {
    let examples = ["build", "--package=flexor-store", "--examples", "--profile=release"];
    let built = compile::run(root, "the store and its load", &examples)?;
    let program = |name| {
        let artifact = built.iter().find(|artifact| artifact.target.name == name);
        artifact.and_then(|artifact| artifact.executable.clone()).with_context(|| format!("cargo built no {name}"))
    };
    Ok((program("plain_store")?, program("store_load")?))
}

/// Runs a load on a server and returns its measurements.
fn put_on(program: &Path, server: &Server, load: &str) -> Result<Vec<(String, f64)>> {
    let output = Command::new(program).args([&server.address(), &server.pid(), load]).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the load {load} failed: {}", complaint.trim());
    let lines = String::from_utf8(output.stdout).context("the load printed no text")?;
    let number = |line: &str| {
        let (name, value) = line.split_once(' ').with_context(|| format!("the load {load} printed '{line}'"))?;
        Ok((name.to_owned(), value.parse()?))
    };
    lines.lines().map(number).collect()
}
