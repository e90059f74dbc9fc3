//! How many messages of a job's nodes a master can handle, and the cost of each: ours against DLRover's.
//!
//! A thousand nodes are in the world, 64 requests are in flight at any time, and the [mix] is the same for both sides.
//! Ours writes a journal, on the machine's disk and on one whose every fsync takes 10 ms longer; DLRover's has none.
//! The load generator is ours for both sides and shares the same cores.

mod dlrover;
mod mix;
mod native;

use std::path::Path;

use anyhow::{Context, Result};
use flexor_testbed::Dlrover;
use tokio::runtime::Runtime;

use self::mix::Acknowledged;
use self::native::Calls;
use super::dlrover_master;
use super::load::Load;
use super::our_master::Disk;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

const NODES: usize = 1000;

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 5;

const SLOW_DISK: Disk = Disk::Slow { fsync_ms: 10 };

/// The master's share of a node's memory budget, in MiB.
const RESIDENT_MARK: f64 = 30.0;
/// How much less CPU a request must cost.
const CPU_TARGET: f64 = 10.0;

/// One way to load our master.
struct Variant {
    name: &'static str,
    calls: Calls,
    acknowledged: Acknowledged,
    disk: Disk,
    /// The target as a multiple of the peer's throughput.
    target: f64,
}

const VARIANTS: [Variant; 6] = [
    variant("streams", Calls::Streams, Acknowledged::AtOnce, Disk::AsItIs),
    variant("streams, fsync +10 ms", Calls::Streams, Acknowledged::AtOnce, SLOW_DISK),
    variant("streams, sets durable", Calls::Streams, Acknowledged::WhenDurable, Disk::AsItIs),
    variant("streams, sets durable, fsync +10 ms", Calls::Streams, Acknowledged::WhenDurable, SLOW_DISK),
    variant("unary", Calls::Unary, Acknowledged::AtOnce, Disk::AsItIs),
    variant("unary, fsync +10 ms", Calls::Unary, Acknowledged::AtOnce, SLOW_DISK),
];

const fn variant(name: &'static str, calls: Calls, acknowledged: Acknowledged, disk: Disk) -> Variant {
    let target = match calls {
        Calls::Streams => 20.0,
        Calls::Unary => 8.0,
    };
    Variant { name, calls, acknowledged, disk, target }
}

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let flexor = compile::flexor(&project_root()?, "release")?;
    let runtime = Runtime::new().context("cannot start tokio")?;
    let dlrover = Dlrover::ensure()?;
    let mut peer = Vec::new();
    let mut ours: [Vec<Load>; VARIANTS.len()] = Default::default();
    for _ in 0..repeats.min(MOST_REPEATS) {
        peer.push(print_load(dlrover_master::NAME, runtime.block_on(dlrover::run(&dlrover, NODES))?));
        for (variant, loads) in VARIANTS.iter().zip(&mut ours) {
            loads.push(print_load(variant.name, runtime.block_on(variant.play(&flexor))?));
        }
    }
    let mut rows = Vec::new();
    for (variant, loads) in VARIANTS.iter().zip(&ours) {
        rows.extend(variant.rows(loads, &peer)?);
    }
    Ok(rows)
}

impl Variant {
    async fn play(&self, flexor: &Path) -> Result<Load> {
        native::run(flexor, NODES, self.calls, self.acknowledged, self.disk).await
    }

    fn rows(&self, ours: &[Load], peer: &[Load]) -> Result<Vec<Row>> {
        let name = self.name;
        let metric = |what: &str| format!("{NODES} nodes, {name}: {what}");
        let all = |loads: &[Load], of: fn(&Load) -> f64| loads.iter().map(of).collect::<Vec<_>>();
        let peer_name = dlrover_master::NAME;
        let rate = |load: &Load| load.per_second;
        let cpu = |load: &Load| load.cpu_micros;
        let memory = |load: &Load| load.resident_mib;
        Ok(vec![
            Row::rate(&metric("messages"), "messages/s", &all(ours, rate), peer_name, &all(peer, rate), self.target)?,
            Row::cost(&metric("CPU per message"), "us", &all(ours, cpu), peer_name, &all(peer, cpu), CPU_TARGET)?,
            Row::cost_within(&metric("RSS"), "MiB", &all(ours, memory), peer_name, &all(peer, memory), RESIDENT_MARK)?,
        ])
    }
}

fn print_load(side: &str, load: Load) -> Load {
    let Load { per_second, cpu_micros, resident_mib } = load;
    eprintln!("{side}: {per_second:.0} messages/s, {cpu_micros:.1} us CPU each, RSS {resident_mib:.1} MiB");
    load
}
