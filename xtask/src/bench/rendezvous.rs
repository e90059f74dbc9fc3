//! How long all nodes of a job need for a rendezvous: torch's handlers and simulated agents over TCPStore, and nodes of
//! the native API; at our master, at torch's own store and at DLRover's master.
//!
//! Load generator and server share the cores of one machine, so no figure is the server's alone. Our master keeps a
//! journal in all of them; the peers keep none. Nodes of the native API have a session each and share connections,
//! [`NODES_PER_CONNECTION`] on each.

mod agent;
mod crowd;
mod dlrover;
mod handler_rules;
mod handlers;
mod native;
mod store_client;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use flexor_testbed::torchrun::StockStore;
use flexor_testbed::{Dlrover, Torch};
use tokio::runtime::Runtime;

use self::handlers::RendezvousTimes;
use self::native::RendezvousSample;
use super::dlrover_master;
use super::our_master::{Disk, OurMaster};
use super::row::Row;
use super::sessions::NODES_PER_CONNECTION;
use crate::compile;
use crate::tree::project_root;

const STOCK: &str = "torch's own store";

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 5;
const MOST_REPEATS_OF_SLOW_PEERS: u32 = 3;

/// Torch's handlers: number, mark of the first rendezvous, mark of the next, in seconds.
const HANDLERS: (usize, f64, f64) = (64, 0.5, 0.75);
/// The processes of the handlers. Handlers of one process share its interpreter, which agents do not.
const INTERPRETERS: [usize; 2] = [1, 2];

/// Simulated agents. There is no mark: the figure is for information.
const AGENTS: [usize; 2] = [256, 1000];
/// The rendezvous limit; later nodes do not count.
const LIMIT: Duration = Duration::from_secs(60);

/// Nodes of the native API, mark in seconds, and whether the peer can be asked to do the same: its log grows with the
/// square of the number.
const NATIVE: [(usize, f64, bool); 3] = [(1000, 1.0, true), (4000, 1.0, true), (10_000, 3.0, false)];
/// A line for each node may be logged, and not more.
const LOG_BYTES_PER_NODE: f64 = 200.0;
/// A log that grows in proportion to the number of nodes has the same length per node.
const LOG_GROWTH: f64 = 1.2;

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let race = Race {
        flexor: compile::flexor(&project_root()?, "release")?,
        torch: Torch::ensure()?,
        dlrover: Dlrover::ensure()?,
        runtime: Runtime::new().context("cannot start tokio")?,
        repeats,
    };
    let mut rows = Vec::new();
    for processes in INTERPRETERS {
        rows.extend(race.handlers(processes)?);
    }
    for nodes in AGENTS {
        rows.extend(race.agents(nodes)?);
    }
    rows.extend(race.native()?);
    Ok(rows)
}

struct Race {
    flexor: PathBuf,
    torch: Torch,
    dlrover: Dlrover,
    runtime: Runtime,
    repeats: u32,
}

impl Race {
    fn handlers(&self, processes: usize) -> Result<Vec<Row>> {
        let (nodes, first_mark, again_mark) = HANDLERS;
        let (mut ours, mut stock) = (Samples::default(), Samples::default());
        for repeat in 0..self.repeats.min(MOST_REPEATS) {
            let master = OurMaster::start(&self.flexor, nodes, Disk::AsItIs)?;
            ours.take(nodes, "flexor", handlers::meet(&self.torch, master.store(), nodes, processes, LIMIT)?);
            drop(master);
            if repeat >= MOST_REPEATS_OF_SLOW_PEERS {
                continue;
            }
            let store = StockStore::start(&self.torch)?;
            stock.take(nodes, STOCK, handlers::meet(&self.torch, &store.endpoint(), nodes, processes, LIMIT)?);
        }
        let where_they_are = if processes == 1 { "1 Python process" } else { &format!("{processes} Python processes") };
        let metric = |what: &str| format!("{nodes} torch handlers in {where_they_are}: {what}");
        Ok(vec![
            Row::seconds_within(&metric("all meet"), &ours.first, STOCK, &stock.first, first_mark)?,
            Row::seconds_within(&metric("all meet again"), &ours.again, STOCK, &stock.again, again_mark)?,
        ])
    }

    fn agents(&self, nodes: usize) -> Result<Vec<Row>> {
        let (mut ours, mut stock) = (Samples::default(), Samples::default());
        for repeat in 0..self.repeats.min(MOST_REPEATS) {
            let master = OurMaster::start(&self.flexor, nodes, Disk::AsItIs)?;
            ours.take(nodes, "flexor", self.runtime.block_on(crowd::meet(master.store(), nodes, LIMIT))?);
            drop(master);
            let peer_is_too_slow = stock.first.iter().any(|seconds| !seconds.is_finite());
            if repeat >= MOST_REPEATS_OF_SLOW_PEERS || peer_is_too_slow {
                continue;
            }
            let store = StockStore::start(&self.torch)?;
            let meetings = self.runtime.block_on(crowd::meet(&store.endpoint(), nodes, LIMIT));
            // A node that is late is taken out by the others, and then there is no world of all.
            let meetings = meetings.unwrap_or_else(|error| {
                eprintln!("{nodes} nodes, {STOCK}: {error:#}");
                RendezvousTimes::NEVER
            });
            stock.take(nodes, STOCK, meetings);
        }
        let metric = |what: &str| format!("{nodes} agents over TCPStore: {what}");
        Ok(vec![
            Row::seconds(&metric("all meet"), &ours.first, STOCK, &stock.first, 1.0)?,
            Row::seconds(&metric("all meet again"), &ours.again, STOCK, &stock.again, 1.0)?,
        ])
    }

    fn native(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut log_per_node = Vec::new();
        for (nodes, mark, peer_can) in NATIVE {
            let (mut ours, mut peer) = (Vec::new(), Vec::new());
            for repeat in 0..self.repeats.min(MOST_REPEATS) {
                ours.push(print_sample(nodes, "flexor", self.runtime.block_on(native::meet(&self.flexor, nodes))?));
                if peer_can && repeat < MOST_REPEATS_OF_SLOW_PEERS {
                    let meeting = self.runtime.block_on(dlrover::meet(&self.dlrover, nodes))?;
                    peer.push(print_sample(nodes, dlrover_master::NAME, meeting));
                }
            }
            if peer.is_empty() {
                peer.push(RendezvousSample::NEVER);
            }
            rows.extend(native_rows(nodes, mark, &ours, &peer)?);
            let longest = |meetings| log_bytes(meetings).into_iter().fold(0.0, f64::max) / nodes as f64;
            log_per_node.push((nodes, longest(&ours), longest(&peer)));
        }
        rows.extend(growth_rows(&log_per_node)?);
        Ok(rows)
    }
}

fn native_rows(nodes: usize, mark: f64, ours: &[RendezvousSample], peer: &[RendezvousSample]) -> Result<[Row; 2]> {
    let name = dlrover_master::NAME;
    let time =
        format!("{nodes} nodes, native API, {NODES_PER_CONNECTION} to a connection: all know rank and world size");
    let seconds = |meetings: &[RendezvousSample]| meetings.iter().map(|meeting| meeting.seconds).collect::<Vec<_>>();
    let log = format!("{nodes} nodes, native API: log of the master");
    let log_mark = LOG_BYTES_PER_NODE * nodes as f64;
    Ok([
        Row::seconds_within(&time, &seconds(ours), name, &seconds(peer), mark)?,
        Row::cost_within(&log, "bytes", &log_bytes(ours), name, &log_bytes(peer), log_mark)?,
    ])
}

/// The growth of the log per node from the fewest nodes, which come first, to more: ours and the peer's.
fn growth_rows(log_per_node: &[(usize, f64, f64)]) -> Result<Vec<Row>> {
    let Some(((fewest, our_first, peer_first), more)) = log_per_node.split_first() else {
        return Ok(Vec::new());
    };
    let row = |(nodes, ours, peer): &(usize, f64, f64)| {
        let metric = format!("log per node, {nodes} nodes against {fewest}");
        let (ours, peer) = ([ours / our_first], [peer / peer_first]);
        Row::cost_within(&metric, "times", &ours, dlrover_master::NAME, &peer, LOG_GROWTH)
    };
    more.iter().map(row).collect()
}

fn log_bytes(meetings: &[RendezvousSample]) -> Vec<f64> {
    meetings.iter().map(|meeting| meeting.log_bytes).collect()
}

/// The times of all repeats.
#[derive(Default)]
struct Samples {
    first: Vec<f64>,
    again: Vec<f64>,
}

impl Samples {
    fn take(&mut self, nodes: usize, side: &str, meetings: RendezvousTimes) {
        eprintln!("{nodes} nodes, {side}: first {:.3} s, again {:.3} s", meetings.first, meetings.again);
        self.first.push(meetings.first);
        self.again.push(meetings.again);
    }
}

fn print_sample(nodes: usize, side: &str, meeting: RendezvousSample) -> RendezvousSample {
    eprintln!("{nodes} nodes, {side}: {:.3} s, {} bytes of log", meeting.seconds, meeting.log_bytes);
    meeting
}
