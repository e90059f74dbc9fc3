//! Simulated workers: lease, pull, push and acknowledge batch after batch, with gradients that are easy to check.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::ledger::{ClientKind, Lease, LeaseOutcome, LeaseRequest, WorkerEnd, WorkerId};
use flexor_master::job::Job;
use flexor_model::Reason;
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor, PullOutcome};
use flexor_ps::push::NonFinite;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::dice::Dice;
use super::model::{ModelValues, TABLE, gradient, keys_of, spec};
use super::network::{Name, Network};
use super::world::{MASTER, running};

pub(crate) const DATASET: &str = "clicks";
/// The pause before a worker retries a call to the master.
const PAUSE: Duration = Duration::from_millis(20);

/// A record of pushes, for the final check.
#[derive(Default)]
pub(crate) struct PushLog {
    /// Batches with at least one push attempt.
    pub(crate) begun: BTreeSet<(u32, u64)>,
    /// Batches that a server rejected as closed.
    pub(crate) batch_closed: BTreeSet<(u32, u64)>,
}

#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) address: Name,
    pub(crate) network: Network,
    pub(crate) job: watch::Receiver<Option<Job>>,
    pub(crate) keys: Arc<Vec<u64>>,
    /// The values before each step in synchronous training.
    pub(crate) steps: Option<Arc<Vec<ModelValues>>>,
    pub(crate) pushed: Arc<Mutex<PushLog>>,
    pub(crate) dice: Dice,
    /// The longest pause between two batches.
    pub(crate) idle: Duration,
}

impl Worker {
    pub(crate) fn client(&self) -> BoxFuture<'static, Client> {
        let dialer = self.network.dialer(&self.address);
        let client = async { Client::with_dialer(MASTER, None, spec(), dialer).await };
        client.map(|client| client.expect("the model is the same for all")).boxed()
    }

    /// Trains until no batches are left and, if checkpoints are configured, the model is saved.
    pub(crate) async fn train(mut self) {
        let mut client = self.client().await;
        loop {
            self.train_all(&mut client).await;
            match client.save().await {
                Ok(true) => return,
                // A rewind happened meanwhile, so there are batches again.
                Ok(false) => {}
                // The servers changed too often for a checkpoint.
                Err(why) => return tracing::info!(%why, "the last checkpoint could not be written"),
            }
        }
    }

    async fn train_all(&mut self, client: &mut Client) {
        while let Some(lease) = self.lease().await {
            tokio::time::sleep(self.dice.within(self.idle)).await;
            let Some((step, values)) = self.train_one(client, &lease).await else {
                let job = running(&mut self.job).await;
                let _ = job.data().release(&self.id, (lease.grant, lease.batches), true).await;
                continue;
            };
            if self.acknowledge(client, &lease).await
                && let Some((step, steps)) = step.zip(self.steps.as_ref())
            {
                let before = &steps[step as usize];
                let rows = |all: &ModelValues| values.rows.keys().map(|key| all.rows[key]).collect::<Vec<_>>();
                assert_eq!(
                    (rows(&values), &values.weights),
                    (rows(before), &before.weights),
                    "{} trained batch {:?} with values that are not those of step {step}",
                    self.id,
                    lease.batches
                );
            }
        }
    }

    /// Waits for a lease; `None` when the dataset is finished.
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

    /// Trains one batch. Returns its step and the pulled values; `None` if its step is never committed.
    async fn train_one(&mut self, client: &mut Client, lease: &Lease) -> Option<(Option<u64>, ModelValues)> {
        let job = running(&mut self.job).await;
        let number = lease.batches.first;
        let batch = (lease.epoch, number);
        let step = job.data().step_of(lease, number);
        let (dataset, rewind_epoch) = (job.data().number(DATASET), job.servers().rewind_epoch());
        drop(job);
        let keys = keys_of(batch, &self.keys);
        let why = step.map_or(PullFor::Training, |committed| PullFor::Step { committed, rewind_epoch });
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
            rewind_epoch: self.steps.as_ref().map(|_| rewind_epoch),
            non_finite: NonFinite::Refuse,
            rows: &[(TABLE, &keys, &rows)],
            variables: &[(0, &weights)],
        };
        let outcome = client.push(&gradients).await.expect("the push is valid");
        let mut pushed = self.pushed.lock();
        if outcome.batch_closed > 0 {
            pushed.batch_closed.insert(batch);
        }
        Some((step, values))
    }

    /// Acknowledges a lease and retries until the master answers. Returns whether the acknowledgement counts: a void
    /// lease was given to another worker.
    async fn acknowledge(&mut self, client: &mut Client, lease: &Lease) -> bool {
        let versions = client.take_acknowledged().to_wire();
        loop {
            let job = running(&mut self.job).await;
            match job.acknowledge(&self.id, (lease.grant, lease.batches), &versions, true).await {
                Ok((records, _)) => return records > 0,
                Err(cause) if cause.reason == Reason::LeaseVoid => return false,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Pulls values; `None` if they belong to a step that is never committed.
pub(crate) async fn pull(client: &mut Client, keys: &[u64], why: PullFor) -> Option<ModelValues> {
    let mut out = Vec::new();
    match client.pull(&[(TABLE, keys)], why, &mut out).await.expect("the table exists") {
        PullOutcome::Complete => {}
        PullOutcome::StepVoid => return None,
    }
    Some(ModelValues { rows: keys.iter().copied().zip(out[0].iter().copied()).collect(), weights: client.variable(0) })
}

/// Reports a lost worker to the master, as its controller does.
pub(crate) async fn report_lost(worker: WorkerId, mut job: watch::Receiver<Option<Job>>) {
    loop {
        let running = running(&mut job).await;
        if running.data().worker_ended(&worker, WorkerEnd::Lost).await.is_ok() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
