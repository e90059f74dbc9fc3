//! Where the time of a worker goes: its loop, one phase after the other, each with its own clock.
//!
//! A real worker reads and pulls the next batch while it computes and pushes this one. Here nothing overlaps, so that
//! the parts add up. They are the worker's own code: data set, features, model, client and ledger.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use flexor_data::{Content, Dataset, Options};
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients as Pushed, PullFor};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_wire::master::v1 as wire;
use flexor_worker::features::{Features, Schema};
use flexor_worker::ledger::{LedgerClient, WorkerName};
use flexor_worker::models::{Architecture, Gradients, Step};
use flexor_worker::{Batch, Lookup, TableLookup};

use super::job::{BATCH, model};
use crate::bench::fleet::Fleet;

/// How many batches are leased at a time, as a worker does.
const LEASE: u64 = 8;

/// The phases of a worker's batch.
pub(super) const PHASES: [&str; 6] =
    ["lease", "read and make features", "pull and wait", "compute", "push and wait", "acknowledge"];

/// Milliseconds of each phase for a batch, in the mean over a file.
pub(super) async fn measure(program: &Path, data: &Path) -> Result<[f64; PHASES.len()]> {
    let fleet = Fleet::start(program, 1, None).await?;
    let dataset = Dataset::open(&[data.to_owned()], &Options::default())?;
    let schema = dataset.columns().and_then(Schema::of_columns).context("the data has no schema")?;
    let mut features = Features::new(&schema);
    let architecture: Architecture = model().parse()?;
    let mut model = architecture.build(features.inputs())?;
    let spec = model.declaration().with(architecture.default_optimizer(), 1);
    let worker = WorkerName { name: "worker-0".to_owned(), incarnation: 1 };
    let ledger = LedgerClient::open(fleet.master(), None, worker)?;
    let (name, records) = ("clicks".to_owned(), dataset.len());
    let all = wire::Dataset { name, records, batch: BATCH.into(), epochs: Some(1), ..wire::Dataset::default() };
    ledger.register(all).await?;
    let mut client = Client::connect(fleet.master(), None, spec).await?;
    let (mut batch, mut lookup) = (Batch::new(features.inputs()), Lookup::default());
    let (mut rows, mut gradients) = (Vec::new(), Gradients::default());
    let mut clock = Clock::default();
    let mut batches = 0;
    clock.begin();
    while let Some(lease) = ledger.lease("clicks", LEASE).await? {
        clock.done(0);
        for of in &lease.batches {
            read(&dataset, &mut features, of, &mut batch)?;
            model.look_up(&batch, &mut lookup);
            clock.done(1);
            let keys = lookup.tables().iter().map(TableLookup::keys);
            let wanted: Vec<(TableId, &[u64])> = (0..).map(TableId).zip(keys).collect();
            client.pull(&wanted, PullFor::Training, &mut rows).await?;
            let count = client.layout().spec().variables.len() as u32;
            let variables: Vec<Vec<f32>> = (0..count).map(|variable| client.variable(variable)).collect();
            clock.done(2);
            let step = Step { batch: &batch, lookup: &lookup, variables: &variables, rows: &rows };
            model.gradients(step, &mut gradients);
            clock.done(3);
            let tables = wanted.iter().zip(&gradients.rows);
            let of_rows: Vec<(TableId, &[u64], &[f32])> =
                tables.map(|((table, keys), values)| (*table, *keys, values.as_slice())).collect();
            let of_variables: Vec<(u32, &[f32])> = (0..).zip(gradients.variables.iter().map(Vec::as_slice)).collect();
            let first = of.number * u64::from(BATCH);
            let push = Pushed {
                batch: BatchId { dataset: lease.dataset, epoch: lease.epoch, first, len: batch.len() as u32 },
                learning_rate: 0.0,
                rewind_epoch: None,
                non_finite: NonFinite::Refuse,
                rows: &of_rows,
                variables: &of_variables,
            };
            client.push(&push).await?;
            clock.done(4);
            let held = wire::LeasedBatches { first: of.number, count: 1, ..lease.held.unwrap_or_default() };
            ledger.acknowledge(held, &client.take_acknowledged(), false).await?;
            clock.done(5);
            batches += 1;
        }
    }
    Ok(clock.spent.map(|seconds| seconds * 1e3 / f64::from(batches)))
}

fn read(dataset: &Dataset, features: &mut Features, of: &wire::Batch, batch: &mut Batch) -> Result<()> {
    batch.clear();
    let mut bad = Ok(());
    dataset.read(of.first..of.first + of.count, &mut |record| {
        if let (Content::Whole(bytes), Ok(())) = (record.content, &bad) {
            bad = features.add(record.number, bytes, batch);
        }
    })?;
    Ok(bad?)
}

/// Adds up the time of each phase.
#[derive(Default)]
struct Clock {
    since: Option<Instant>,
    spent: [f64; PHASES.len()],
}

impl Clock {
    fn begin(&mut self) {
        self.since = Some(Instant::now());
    }

    /// A phase has ended, and the next one begins.
    fn done(&mut self, phase: usize) {
        let now = Instant::now();
        if let Some(since) = self.since.replace(now) {
            self.spent[phase] += now.duration_since(since).as_secs_f64();
        }
    }
}
