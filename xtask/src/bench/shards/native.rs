//! Workers at our master: each has a session and holds one batch at any time.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;
use wire::request::Op;

use super::dataset::{Dataset, NAME};
use crate::bench::load::{self, Lane, Load, OUTSTANDING};
use crate::bench::our_master::{Disk, OurMaster};
use crate::bench::process_cost;
use crate::bench::sessions::{self, Session};

/// The measurements of one master with one dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShardSample {
    /// Seconds from the registration until the first worker had its batch.
    pub(super) first_lease: f64,
    /// By how many MiB that made the master grow.
    pub(super) growth_mib: f64,
    /// All workers, batch after batch.
    pub(super) load: Load,
}

/// Registers a dataset at a new master with a journal, and lets this many workers process it.
pub(super) async fn run(flexor: &Path, dataset: Dataset, workers: usize) -> Result<ShardSample> {
    let master = OurMaster::start(flexor, workers, Disk::AsItIs)?;
    let clients = sessions::connect(master.grpc(), workers).await?;
    let open = |number: usize| {
        let client = clients[number % clients.len()].clone();
        Session::open(client, sessions::node(number), Op::Heartbeat(wire::Heartbeat {}))
    };
    let mut first = open(0).await?;
    // The answer shows that the connection is warm; what follows is the data's alone.
    first.ask(Op::Heartbeat(wire::Heartbeat {})).await?;

    let before = process_cost::resident_mib(master.pid())?;
    let started = Instant::now();
    first.ask(Op::Register(dataset.wire())).await?;
    let first = Worker::begin(first).await?;
    let first_lease = started.elapsed().as_secs_f64();
    let growth_mib = process_cost::resident_mib(master.pid())? - before;

    let mut lanes: Vec<_> = (0..OUTSTANDING).map(|_| Workers { workers: Vec::new() }).collect();
    lanes[0].workers.push(first);
    for number in 1..workers {
        lanes[number % OUTSTANDING].workers.push(Worker::begin(open(number).await?).await?);
    }
    let load = load::drive(lanes, master.pid()).await?;
    Ok(ShardSample { first_lease, growth_mib, load })
}

struct Workers {
    workers: Vec<Worker>,
}

impl Lane for Workers {
    async fn ask(&mut self, turn: usize) -> Result<()> {
        let count = self.workers.len();
        self.workers[turn % count].go_on().await
    }
}

/// One worker with the batch that it holds.
struct Worker {
    session: Session,
    held: wire::LeasedBatches,
}

impl Worker {
    async fn begin(mut session: Session) -> Result<Worker> {
        let held = lease(&mut session).await?;
        Ok(Worker { session, held })
    }

    /// Acknowledges its batch and leases the next.
    async fn go_on(&mut self) -> Result<()> {
        let done = wire::AcknowledgeBatches { done: Some(self.held), durable: false, versions: Vec::new() };
        match self.session.ask(Op::Acknowledge(done)).await? {
            Answer::Accounted(accounted) if accounted.records > 0 => {}
            other => bail!("a batch was acknowledged and the master answered {other:?}"),
        }
        self.held = lease(&mut self.session).await?;
        Ok(())
    }
}

async fn lease(session: &mut Session) -> Result<wire::LeasedBatches> {
    let asked = wire::LeaseBatches { dataset: NAME.to_owned(), batches: 1, epoch: None, wait_ms: 0 };
    match session.ask(Op::Lease(asked)).await? {
        Answer::Lease(lease) if !lease.batches.is_empty() => lease.held.context("a lease that holds nothing"),
        other => bail!("a batch was asked for and the master answered {other:?}"),
    }
}
