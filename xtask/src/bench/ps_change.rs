//! Parameter servers are added, removed, write checkpoints and hold snapshots while workers pull and push at full
//! speed. Measures the disturbance of the workers, against stopping everything for a checkpoint ([`stop_the_world`]).
//!
//! Master and servers are processes. Two workers in this process alternate pulls and pushes over a table of about a
//! gigabyte ([`load`]). Keys are uniform, so nearly every page of a partition is written while it is copied. A worker's
//! stall is its longest call, without deductions. No process has cores of its own, because moving partitions takes CPU
//! time from the load.

mod change;
mod load;
mod stop_the_world;

use std::path::Path;

use anyhow::{Context, Result};
use flexor_ps::client::AcknowledgedVersions;
use flexor_wire::master::v1 as wire;
use flexor_worker::ledger::{LedgerClient, WorkerName};
use tokio::runtime::Runtime;

use self::change::{Change, Disturbance};
use self::load::{Load, ROW_BYTES};
use self::stop_the_world::Downtime;
use super::fleet::Fleet;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 3;
/// Bytes of tables, and of a try-out.
const TABLES: u64 = 1 << 30;
const SMALL_TABLES: u64 = 64 << 20;

/// The longest stall of a worker, in seconds.
const STALL: f64 = 0.2;
/// The longest that a group of partitions may be frozen, in seconds.
const FREEZE: f64 = 0.05;
/// The least share of the throughput that is left.
const LEFT: f64 = 0.7;

const PEER: &str = "all stop for a checkpoint";
const BEFORE: &str = "the same load before it";

/// The changes, in this order. There are two servers at first, and after the last change.
const MOVES: [Change; 3] = [Change::Add, Change::Replace, Change::Remove];

/// The changes of the set that the peer leaves: they read the parameters during training.
const READINGS: [Change; 2] = [Change::Checkpoint, Change::Snapshot];

/// With tables of a gigabyte.
pub(super) fn full(repeats: u32) -> Result<Vec<Row>> {
    run(repeats, TABLES)
}

/// To try it out.
pub(super) fn small(repeats: u32) -> Result<Vec<Row>> {
    run(repeats, SMALL_TABLES)
}

fn run(repeats: u32, bytes: u64) -> Result<Vec<Row>> {
    let program = compile::flexor(&project_root()?, "release")?;
    let runtime = Runtime::new().context("cannot start tokio")?;
    let mut samples: Vec<ChangeSample> = Vec::new();
    for _ in 0..repeats.min(MOST_REPEATS) {
        samples.push(runtime.block_on(play(&program, bytes / ROW_BYTES))?);
    }
    let changes: Vec<f64> = samples.iter().map(|one| one.stopped.change).collect();
    let checkpoints: Vec<f64> = samples.iter().map(|one| one.stopped.checkpoint).collect();
    let freezes: Vec<f64> = samples.iter().map(|one| one.freeze).collect();
    let mut rows =
        vec![Row::seconds_within("longest freeze of a group of partitions", &freezes, PEER, &changes, FREEZE)?];
    for change in MOVES {
        rows.extend(judged(change, &samples, &changes)?);
    }
    for change in READINGS {
        rows.extend(judged(change, &samples, &checkpoints)?);
    }
    Ok(rows)
}

/// The results of one repeat.
struct ChangeSample {
    disturbances: Vec<(Change, Disturbance)>,
    /// The longest time that a partition was frozen during a handover, in seconds.
    freeze: f64,
    stopped: Downtime,
}

async fn play(program: &Path, rows: u64) -> Result<ChangeSample> {
    let folder = tempfile::tempdir().context("cannot make a folder for checkpoints")?;
    let load = Load::of(rows);
    let mut fleet = Fleet::start(program, 2, Some(folder.path())).await?;
    load.fill(fleet.master()).await?;
    let mut disturbances = Vec::new();
    for change in MOVES {
        disturbances.push((change, change.happen(&mut fleet, &load).await?));
    }
    let freeze = fleet.longest_freeze();
    finish_data(fleet.master(), "first").await?;
    let (mut fleet, stopped) = stop_the_world::change(program, fleet, &load, folder.path()).await?;
    for change in READINGS {
        disturbances.push((change, change.happen(&mut fleet, &load).await?));
    }
    Ok(ChangeSample { disturbances, freeze, stopped })
}

fn judged(change: Change, samples: &[ChangeSample], stopped: &[f64]) -> Result<Vec<Row>> {
    let of = |what: fn(&Disturbance) -> f64| -> Vec<f64> {
        let disturbances = samples.iter().flat_map(|one| &one.disturbances).filter(|(happened, _)| *happened == change);
        disturbances.map(|(_, disturbance)| what(disturbance)).collect()
    };
    let metric = |what: &str| format!("{change}: {what}");
    let (stall, meanwhile) = (metric("longest stall of a worker"), metric("throughput meanwhile"));
    let (left, before) = (of(|disturbance| disturbance.meanwhile), of(|disturbance| disturbance.before));
    Ok(vec![
        Row::seconds_within(&stall, &of(|disturbance| disturbance.stall), PEER, stopped, STALL)?,
        Row::rate(&meanwhile, "rows/s", &left, BEFORE, &before, LEFT)?,
        Row::seconds(&metric("how long it takes"), &of(|disturbance| disturbance.took), PEER, stopped, 0.0)?
            .for_information(),
    ])
}

/// Registers a dataset of one record and completes it: a master makes a checkpoint when all data is trained, unless the
/// latest has the same data position.
async fn finish_data(master: &str, dataset: &str) -> Result<()> {
    let worker = WorkerName { name: "load".to_owned(), incarnation: 1 };
    let ledger = LedgerClient::open(master, None, worker)?;
    let name = dataset.to_owned();
    let spec = wire::Dataset { name, records: 1, batch: 1, epochs: Some(1), ..wire::Dataset::default() };
    ledger.register(spec).await?;
    let lease = ledger.lease(dataset, 1).await?.context("there is one record to learn")?;
    let held = lease.held.context("a lease has something")?;
    ledger.acknowledge(held, &AcknowledgedVersions::default(), true).await?;
    Ok(())
}
