//! Workers that learn batch after batch: lease, pull, push, acknowledge, as the real ones do, with gradients that are
//! easy to check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::ledger::{ClientKind, Lease, LeaseOutcome, LeaseRequest, WorkerEnd, WorkerId};
use flexor_master::job::Job;
use flexor_model::Reason;
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor, PullOutcome};
use flexor_ps::placement::PartitionId;
use flexor_ps::push::NonFinite;
use flexor_wire::master::v1 as wire;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::dice::Dice;
use super::model::{TABLE, Values, gradient, keys_of, spec};
use super::network::{Name, Network};
use super::world::{MASTER, running};

pub(crate) const DATASET: &str = "clicks";
/// How long a worker waits before it asks the master again.
const PAUSE: Duration = Duration::from_millis(20);

/// What was pushed, for the one who checks.
#[derive(Default)]
pub(crate) struct Pushed {
    /// Batches of which something was sent.
    pub(crate) begun: BTreeSet<(u32, u64)>,
    /// Batches of which a server said that others had done them.
    pub(crate) too_late: BTreeSet<(u32, u64)>,
    /// Versions that workers were answered with.
    pub(crate) answered: BTreeMap<(PartitionId, u64), u64>,
}

/// A worker to be.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) address: Name,
    pub(crate) network: Network,
    pub(crate) job: watch::Receiver<Option<Job>>,
    pub(crate) keys: Arc<Vec<u64>>,
    /// What every step begins with, where training goes in steps.
    pub(crate) steps: Option<Arc<Vec<Values>>>,
    pub(crate) pushed: Arc<Mutex<Pushed>>,
    pub(crate) dice: Dice,
    /// How long it takes between two batches at most.
    pub(crate) idle: Duration,
}

impl Worker {
    pub(crate) fn client(&self) -> BoxFuture<'static, Client> {
        let dialer = self.network.dialer(&self.address);
        let client = async { Client::with_dialer(MASTER, None, spec(), dialer).await };
        client.map(|client| client.expect("the model is the same for all")).boxed()
    }

    /// Learns until nothing is left, and what was learnt is in a checkpoint where some are made.
    pub(crate) async fn learn(mut self) {
        let mut client = self.client().await;
        loop {
            self.learn_all(&mut client).await;
            match client.save().await {
                Ok(true) => return,
                // Everybody has gone back meanwhile.
                Ok(false) => {}
                // The servers changed too often for a checkpoint.
                Err(why) => return tracing::info!(%why, "the last checkpoint cannot be made"),
            }
        }
    }

    async fn learn_all(&mut self, client: &mut Client) {
        while let Some(lease) = self.lease().await {
            tokio::time::sleep(self.dice.within(self.idle)).await;
            let Some((step, values)) = self.learn_one(client, &lease).await else {
                let job = running(&mut self.job).await;
                let _ = job.data().release(&self.id, (lease.grant, lease.batches), true).await;
                continue;
            };
            if self.acknowledge(&lease).await
                && let Some((step, steps)) = step.zip(self.steps.as_ref())
            {
                let before = &steps[step as usize];
                let rows = |all: &Values| values.rows.keys().map(|key| all.rows[key]).collect::<Vec<_>>();
                assert_eq!(
                    (rows(&values), &values.weights),
                    (rows(before), &before.weights),
                    "{} learnt batch {:?} with values that are not those of step {step}",
                    self.id,
                    lease.batches
                );
            }
            self.report(client).await;
        }
    }

    /// A batch, waiting for one; nothing when all is learnt.
    async fn lease(&mut self) -> Option<Lease> {
        let asked = LeaseRequest { dataset: DATASET.into(), batches: 1, epoch: None, client: ClientKind::Stateless };
        loop {
            let job = running(&mut self.job).await;
            match job.data().lease(&self.id, &asked, Duration::ZERO).await {
                Ok(LeaseOutcome::Lease(lease)) => return Some(lease),
                Ok(LeaseOutcome::Finished) => return None,
                Ok(LeaseOutcome::Wait(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Pushes what is learnt from a batch: in which step, and with which values. Nothing if the step does not come.
    async fn learn_one(&mut self, client: &mut Client, lease: &Lease) -> Option<(Option<u64>, Values)> {
        let job = running(&mut self.job).await;
        let number = lease.batches.first;
        let batch = (lease.epoch, number);
        let step = job.data().step_of(lease, number);
        let (dataset, rewound) = (job.data().number(DATASET), job.servers().rewound());
        drop(job);
        let keys = keys_of(batch, &self.keys);
        let why = step.map_or(PullFor::Training, |taken| PullFor::Step { taken, rewound });
        let values = pull(client, &keys, why).await?;
        let (rows, weights): (Vec<f32>, Vec<f32>) = if self.steps.is_some() {
            let weights = (0..).zip(&values.weights).map(|(at, value)| gradient(batch, at, *value));
            (keys.iter().map(|key| gradient(batch, *key, values.rows[key])).collect(), weights.collect())
        } else {
            (vec![-1.0; keys.len()], vec![-1.0; values.weights.len()])
        };
        self.pushed.lock().begun.insert(batch);
        let gradients = Gradients {
            batch: BatchId { dataset, epoch: lease.epoch, first: number, len: 1 },
            learning_rate: 0.0,
            in_step: self.steps.as_ref().map(|_| rewound),
            non_finite: NonFinite::Refuse,
            rows: &[(TABLE, &keys, &rows)],
            variables: &[(0, &weights)],
        };
        let outcome = client.push(&gradients).await.expect("nothing is wrong with it");
        let mut pushed = self.pushed.lock();
        if outcome.too_late > 0 {
            pushed.too_late.insert(batch);
        }
        for (partition, origin, version) in client.answered().iter() {
            let known = pushed.answered.entry((partition, origin)).or_default();
            *known = version.max(*known);
        }
        Some((step, values))
    }

    /// Says so until the master has taken it in; what is void by then is done by another. Whether it counts.
    async fn acknowledge(&mut self, lease: &Lease) -> bool {
        loop {
            let job = running(&mut self.job).await;
            match job.data().acknowledge(&self.id, (lease.grant, lease.batches), true).await {
                Ok((records, _)) => return records > 0,
                Err(cause) if cause.reason == Reason::LeaseVoid => return false,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn report(&mut self, client: &Client) {
        let job = running(&mut self.job).await;
        let answered = client.answered().iter().map(|(id, origin, version)| ((id, origin), version));
        // One that is not taken in is said again with the next.
        let _ = job.servers().updates(&self.id, &said(answered));
    }
}

/// What workers tell the master of the versions that they were answered with.
pub(crate) fn said(answered: impl Iterator<Item = ((PartitionId, u64), u64)>) -> wire::WorkerUpdates {
    let one = |((partition, origin), version): ((PartitionId, u64), u64)| wire::AnsweredVersion {
        partition: partition.number(),
        origin,
        version,
    };
    wire::WorkerUpdates { repeats: 0, answered: answered.map(one).collect() }
}

/// Values as they are; none if they are of a step that does not come.
pub(crate) async fn pull(client: &mut Client, keys: &[u64], why: PullFor) -> Option<Values> {
    let mut out = Vec::new();
    match client.pull(&[(TABLE, keys)], why, &mut out).await.expect("there is such a table") {
        PullOutcome::Whole => {}
        PullOutcome::NoSuchStep => return None,
    }
    Some(Values { rows: keys.iter().copied().zip(out[0].iter().copied()).collect(), weights: client.variable(0) })
}

/// Whoever started a worker says that it was lost.
pub(crate) async fn tell_lost(worker: WorkerId, mut job: watch::Receiver<Option<Job>>) {
    loop {
        let running = running(&mut job).await;
        if running.data().worker_ended(&worker, WorkerEnd::Lost).await.is_ok() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
