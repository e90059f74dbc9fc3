//! A worker's client of the data ledger. It leases and acknowledges batches, and resumes after a broken connection.
//!
//! One task holds the session ([`session`]); callers send their requests to it. The master may return a batch to other
//! workers. Its acknowledgement is then refused, which is no error: another worker processes the batch.

mod session;
#[cfg(test)]
mod tests;
mod unconfirmed_versions;

use flexor_model::Reason;
use flexor_ps::client::AcknowledgedVersions;
use flexor_ps::dial::Dialer;
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::session::{PendingRequest, Session};

/// One incarnation of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerName {
    /// Unique in the job.
    pub name: String,
    /// A higher one ends the lower ones.
    pub incarnation: u64,
}

/// Why a request to the master failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// The master's address is invalid.
    #[error("the master's address cannot be used: {0}")]
    Address(String),
    /// The master refuses the session.
    #[error("the master refuses this worker: {0}")]
    Declined(String),
    /// The master refuses a request.
    #[error("{reason}: {detail}")]
    Refused { reason: Reason, detail: String },
    /// The master refuses a request for a reason that this version does not know.
    #[error("{reason_text}: {detail}")]
    RefusedOtherwise { reason_text: String, detail: String },
    /// The answer does not match the request.
    #[error("the master's answer does not match the request")]
    UnexpectedAnswer,
    #[error("the session with the master has ended")]
    Ended,
}

/// A client of the data ledger. Dropping it ends the session.
pub struct LedgerClient {
    requests: mpsc::Sender<PendingRequest>,
    session: JoinHandle<()>,
}

impl LedgerClient {
    /// Starts a session with the master at an address, and waits for the master.
    pub fn open(master: &str, token: Option<Token>, worker: WorkerName) -> Result<Self, LedgerError> {
        Self::with_dialer(master, token, worker, &Dialer::default())
    }

    /// Like [`LedgerClient::open`], over connections of a given dialer.
    pub fn with_dialer(
        master: &str,
        token: Option<Token>,
        worker: WorkerName,
        dialer: &Dialer,
    ) -> Result<Self, LedgerError> {
        let master = dialer.endpoint(master).map_err(|error| LedgerError::Address(error.to_string()))?;
        let (requests, receiver) = mpsc::channel(64);
        let session = Session::new(master, token, worker, receiver);
        Ok(Self { requests, session: tokio::spawn(session.run()) })
    }

    /// Registers a dataset.
    pub async fn register(&self, dataset: wire::Dataset) -> Result<(), LedgerError> {
        match self.call(wire::request::Op::Register(dataset)).await? {
            wire::reply::Result::Done(_) => Ok(()),
            _ => Err(LedgerError::UnexpectedAnswer),
        }
    }

    /// Leases batches. Waits for available ones; `None` when the dataset is finished.
    pub async fn lease(&self, dataset: &str, batches: u64) -> Result<Option<wire::Lease>, LedgerError> {
        loop {
            let request = wire::LeaseBatches { dataset: dataset.to_owned(), batches, epoch: None, wait_ms: 10_000 };
            match self.call(wire::request::Op::Lease(request)).await? {
                wire::reply::Result::Lease(lease) if lease.finished => return Ok(None),
                wire::reply::Result::Lease(lease) if lease.held.is_some() => return Ok(Some(lease)),
                wire::reply::Result::Lease(_) => {}
                _ => return Err(LedgerError::UnexpectedAnswer),
            }
        }
    }

    /// Waits until the dataset is finished, or a batch is available to this worker. Returns whether it is finished.
    pub async fn is_finished(&self, dataset: &str) -> Result<bool, LedgerError> {
        match self.lease(dataset, 1).await?.and_then(|lease| lease.held) {
            None => Ok(true),
            Some(held) => self.release(held).await.map(|()| false),
        }
    }

    /// Acknowledges batches whose updates have these versions. Returns the newly accounted records: 0 if another worker had
    /// acknowledged them.
    pub async fn acknowledge(
        &self,
        done: wire::LeasedBatches,
        versions: &AcknowledgedVersions,
        durable: bool,
    ) -> Result<u64, LedgerError> {
        let versions = versions.to_wire();
        let acknowledged = wire::AcknowledgeBatches { done: Some(done), durable, versions };
        match self.call(wire::request::Op::Acknowledge(acknowledged)).await {
            Ok(wire::reply::Result::Accounted(accounted)) => Ok(accounted.records),
            Err(LedgerError::Refused { reason: Reason::LeaseVoid, .. }) => Ok(0),
            Ok(_) => Err(LedgerError::UnexpectedAnswer),
            Err(error) => Err(error),
        }
    }

    /// Releases batches. A void lease is no error.
    pub async fn release(&self, held: wire::LeasedBatches) -> Result<(), LedgerError> {
        match self.call(wire::request::Op::Release(held)).await {
            Ok(wire::reply::Result::Done(_)) => Ok(()),
            Err(LedgerError::Refused { reason: Reason::LeaseVoid, .. }) => Ok(()),
            Ok(_) => Err(LedgerError::UnexpectedAnswer),
            Err(error) => Err(error),
        }
    }

    /// Waits until this worker is assigned an evaluation, due after every so many records. Returns it with its number.
    pub async fn next_evaluation(&self, dataset: &str, every: u64) -> Result<(u64, wire::Evaluation), LedgerError> {
        loop {
            let request = wire::EvaluateNext { dataset: dataset.to_owned(), every, wait_ms: 10_000 };
            match self.call(wire::request::Op::Evaluate(request)).await? {
                wire::reply::Result::Evaluation(due) => {
                    if let Some(number) = due.number {
                        return Ok((number, due));
                    }
                }
                _ => return Err(LedgerError::UnexpectedAnswer),
            }
        }
    }

    /// Sends the result of an evaluation.
    pub async fn report_evaluation(&self, result: wire::EvaluationResult) -> Result<(), LedgerError> {
        self.call(wire::request::Op::Evaluated(result)).await.map(|_| ())
    }

    /// Sends the worker's metrics.
    pub async fn report(&self, numbers: wire::Metrics) -> Result<(), LedgerError> {
        self.call(wire::request::Op::Metrics(numbers)).await.map(|_| ())
    }

    async fn call(&self, op: wire::request::Op) -> Result<wire::reply::Result, LedgerError> {
        let (answer, awaited) = oneshot::channel();
        self.requests.send(PendingRequest { op, answer }).await.map_err(|_| LedgerError::Ended)?;
        match awaited.await.map_err(|_| LedgerError::Ended)?? {
            wire::reply::Result::Refusal(wire::Refusal { reason: reason_text, detail }) => {
                Err(match reason_text.parse() {
                    Ok(reason) => LedgerError::Refused { reason, detail },
                    Err(_) => LedgerError::RefusedOtherwise { reason_text, detail },
                })
            }
            result => Ok(result),
        }
    }
}

impl Drop for LedgerClient {
    fn drop(&mut self) {
        self.session.abort();
    }
}
