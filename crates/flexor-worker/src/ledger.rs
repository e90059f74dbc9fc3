//! A worker's way to the ledger of the data: it leases batches, says when they are done, and says both again to whoever
//! is the master when a connection broke.
//!
//! One task holds the session ([`session`]); everybody else asks it. A batch that the master took back meanwhile is
//! refused when it is acknowledged, and nothing follows from that: somebody else does it.

mod session;
#[cfg(test)]
mod tests;

use flexor_model::Reason;
use flexor_ps::dial::Dialer;
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::session::{Asked, Session};

/// One life of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerName {
    /// The name, unique in the job.
    pub name: String,
    /// Which life; a higher one ends the lower ones.
    pub incarnation: u64,
}

/// What the master does not do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// The master's address is none.
    #[error("the master's address cannot be used: {0}")]
    Address(String),
    /// It does not speak with this worker, and says why.
    #[error("the master refuses this worker: {0}")]
    Declined(String),
    /// It refuses what was asked, and says why.
    #[error("{reason}: {detail}")]
    Refused {
        /// Why.
        reason: Reason,
        /// In a sentence.
        detail: String,
    },
    /// It refuses what was asked for a reason that this version does not know.
    #[error("{word}: {detail}")]
    RefusedOtherwise {
        /// The word that it has for it.
        word: String,
        /// In a sentence.
        detail: String,
    },
    /// It answers something else than was asked.
    #[error("the master answers nonsense")]
    Nonsense,
    /// The session has ended.
    #[error("the session with the master has ended")]
    Ended,
}

/// A ledger.
pub struct Ledger {
    asked: mpsc::Sender<Asked>,
    session: JoinHandle<()>,
}

impl Ledger {
    /// Begins a session with the master at an address, which is waited for.
    pub fn open(master: &str, token: Option<Token>, worker: WorkerName) -> Result<Self, LedgerError> {
        Self::with_dialer(master, token, worker, &Dialer::default())
    }

    /// As [`Ledger::open`], over connections that somebody else makes.
    pub fn with_dialer(
        master: &str,
        token: Option<Token>,
        worker: WorkerName,
        dialer: &Dialer,
    ) -> Result<Self, LedgerError> {
        let master = dialer.endpoint(master).map_err(|error| LedgerError::Address(error.to_string()))?;
        let (asked, receiver) = mpsc::channel(64);
        let session = Session::new(master, token, worker, receiver);
        Ok(Self { asked, session: tokio::spawn(session.run()) })
    }

    /// The job has this dataset.
    pub async fn register(&self, dataset: wire::Dataset) -> Result<(), LedgerError> {
        match self.ask(wire::request::Op::Register(dataset)).await? {
            wire::reply::Result::Done(_) => Ok(()),
            _ => Err(LedgerError::Nonsense),
        }
    }

    /// Batches to go through: waits for some, until there are none any more.
    pub async fn lease(&self, dataset: &str, batches: u64) -> Result<Option<wire::Lease>, LedgerError> {
        loop {
            let wanted = wire::LeaseBatches { dataset: dataset.to_owned(), batches, epoch: None, wait_ms: 10_000 };
            match self.ask(wire::request::Op::Lease(wanted)).await? {
                wire::reply::Result::Lease(lease) if lease.finished => return Ok(None),
                wire::reply::Result::Lease(lease) if lease.held.is_some() => return Ok(Some(lease)),
                wire::reply::Result::Lease(_) => {}
                _ => return Err(LedgerError::Nonsense),
            }
        }
    }

    /// Waits until all batches are done, or there is one for this worker: whether all are.
    pub async fn is_finished(&self, dataset: &str) -> Result<bool, LedgerError> {
        match self.lease(dataset, 1).await?.and_then(|lease| lease.held) {
            None => Ok(true),
            Some(held) => self.give_back(held).await.map(|()| false),
        }
    }

    /// Batches are done. How many records that accounts for: none if somebody else has done them.
    pub async fn acknowledge(&self, done: wire::Held, durable: bool) -> Result<u64, LedgerError> {
        let acknowledged = wire::AcknowledgeBatches { done: Some(done), durable };
        match self.ask(wire::request::Op::Acknowledge(acknowledged)).await {
            Ok(wire::reply::Result::Accounted(accounted)) => Ok(accounted.records),
            Err(LedgerError::Refused { reason: Reason::LeaseVoid, .. }) => Ok(0),
            Ok(_) => Err(LedgerError::Nonsense),
            Err(error) => Err(error),
        }
    }

    /// Batches are not wanted any more. Whether they were this worker's does not matter then.
    pub async fn give_back(&self, held: wire::Held) -> Result<(), LedgerError> {
        match self.ask(wire::request::Op::GiveBack(held)).await {
            Ok(wire::reply::Result::Done(_)) => Ok(()),
            Err(LedgerError::Refused { reason: Reason::LeaseVoid, .. }) => Ok(()),
            Ok(_) => Err(LedgerError::Nonsense),
            Err(error) => Err(error),
        }
    }

    /// Waits until this worker is to measure the model, which is due after every so many records; gives its number, too.
    pub async fn next_evaluation(&self, dataset: &str, every: u64) -> Result<(u64, wire::Evaluation), LedgerError> {
        loop {
            let wanted = wire::EvaluateNext { dataset: dataset.to_owned(), every, wait_ms: 10_000 };
            match self.ask(wire::request::Op::Evaluate(wanted)).await? {
                wire::reply::Result::Evaluation(due) => {
                    if let Some(number) = due.number {
                        return Ok((number, due));
                    }
                }
                _ => return Err(LedgerError::Nonsense),
            }
        }
    }

    /// What came of it.
    pub async fn evaluated(&self, said: wire::Evaluated) -> Result<(), LedgerError> {
        self.ask(wire::request::Op::Evaluated(said)).await.map(|_| ())
    }

    /// Numbers of this worker, for people.
    pub async fn report(&self, numbers: wire::Metrics) -> Result<(), LedgerError> {
        self.ask(wire::request::Op::Metrics(numbers)).await.map(|_| ())
    }

    async fn ask(&self, op: wire::request::Op) -> Result<wire::reply::Result, LedgerError> {
        let (answer, awaited) = oneshot::channel();
        self.asked.send(Asked { op, answer }).await.map_err(|_| LedgerError::Ended)?;
        match awaited.await.map_err(|_| LedgerError::Ended)?? {
            wire::reply::Result::Refusal(wire::Refusal { reason: word, detail }) => Err(match word.parse() {
                Ok(reason) => LedgerError::Refused { reason, detail },
                Err(_) => LedgerError::RefusedOtherwise { word, detail },
            }),
            result => Ok(result),
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.session.abort();
    }
}
