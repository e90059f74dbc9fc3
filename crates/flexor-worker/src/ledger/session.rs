//! The session of a worker: its requests and answers, and the state that it repeats after a broken connection.

use std::collections::{BTreeMap, VecDeque};

use flexor_ps::client::AcknowledgedVersions;
use flexor_ps::dial::{DialEndpoint, is_final};
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::unconfirmed_versions::UnconfirmedVersions;
use super::{LedgerError, WorkerName};

/// The id of the `Resume` request.
const RESUME_ID: u64 = 1;

/// A request and the channel of its answer.
pub(super) struct PendingRequest {
    pub(super) op: wire::request::Op,
    pub(super) answer: oneshot::Sender<Result<wire::reply::Result, LedgerError>>,
}

pub(super) struct Session {
    master: DialEndpoint,
    token: Option<Token>,
    worker: WorkerName,
    requests: mpsc::Receiver<PendingRequest>,
    /// Unanswered requests, by id.
    open: BTreeMap<u64, PendingRequest>,
    last: u64,
    /// Leased and not acknowledged.
    leased: Vec<wire::LeasedBatches>,
    /// Acknowledged batches, each with the LSN that must be durable before it need not be repeated.
    acknowledged: VecDeque<(u64, wire::LeasedBatches)>,
    /// The versions of their updates.
    versions: UnconfirmedVersions,
}

impl Session {
    pub(super) fn new(
        master: DialEndpoint,
        token: Option<Token>,
        worker: WorkerName,
        requests: mpsc::Receiver<PendingRequest>,
    ) -> Self {
        let (leased, acknowledged, versions) = (Vec::new(), VecDeque::new(), UnconfirmedVersions::default());
        let open = BTreeMap::new();
        Self { master, token, worker, requests, open, last: RESUME_ID, leased, acknowledged, versions }
    }

    /// Runs until the client is dropped.
    pub(super) async fn run(mut self) {
        let mut reconnect = self.master.reconnect();
        loop {
            reconnect.next_attempt().await;
            if let Some(outage) = reconnect.outage_to_report() {
                tracing::warn!(master = %self.master, ?outage, "the master cannot be reached; retrying");
            }
            if let Ok(channel) = self.master.connect().await {
                let mut client = MasterClient::with_interceptor(channel, Token::carried(self.token.as_ref()));
                let (requests, receiver) = mpsc::channel(64);
                // `Resume` precedes all other requests.
                let resume = self.request(RESUME_ID, wire::request::Op::Resume(self.resume()));
                let begun = match requests.send(resume).await {
                    Ok(()) => client.session(ReceiverStream::new(receiver)).await,
                    Err(_) => Err(Status::unavailable("the connection closed before Resume was sent")),
                };
                match begun {
                    Ok(replies) => {
                        reconnect.established();
                        if self.exchange(requests, replies.into_inner()).await.is_err() {
                            return;
                        }
                    }
                    Err(status) if is_final(&status) => return self.refuse_all(status.message()).await,
                    Err(_) => {}
                }
            }
        }
    }

    /// Refuses all open and future requests, because the master refuses the session.
    async fn refuse_all(mut self, why: &str) {
        let waiting = std::mem::take(&mut self.open).into_values();
        for pending in waiting {
            let _ = pending.answer.send(Err(LedgerError::Declined(why.to_owned())));
        }
        while let Some(pending) = self.requests.recv().await {
            let _ = pending.answer.send(Err(LedgerError::Declined(why.to_owned())));
        }
    }

    /// Runs until the stream breaks; an error when the client was dropped.
    async fn exchange(
        &mut self,
        outgoing: mpsc::Sender<wire::Request>,
        mut replies: Streaming<wire::Reply>,
    ) -> Result<(), LedgerError> {
        let unanswered: Vec<(u64, wire::request::Op)> =
            self.open.iter().map(|(id, pending)| (*id, pending.op.clone())).collect();
        for (id, op) in unanswered {
            if outgoing.send(self.request(id, op)).await.is_err() {
                return Ok(());
            }
        }
        loop {
            tokio::select! {
                reply = replies.message() => match reply {
                    Ok(Some(reply)) => self.handle(reply),
                    Ok(None) | Err(_) => return Ok(()),
                },
                pending = self.requests.recv() => {
                    let Some(pending) = pending else { return Err(LedgerError::Ended) };
                    self.last += 1;
                    let request = self.request(self.last, pending.op.clone());
                    self.open.insert(self.last, pending);
                    if outgoing.send(request).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn handle(&mut self, reply: wire::Reply) {
        while self.acknowledged.front().is_some_and(|(lsn, _)| *lsn <= reply.durable_lsn) {
            self.acknowledged.pop_front();
        }
        self.versions.durable(reply.durable_lsn);
        let Some(result) = reply.result else { return };
        if reply.id == RESUME_ID {
            if let wire::reply::Result::Void(void) = result {
                self.leased.retain(|held| !void.held.contains(held));
            }
            return;
        }
        let Some(pending) = self.open.remove(&reply.id) else { return };
        match (&pending.op, &result) {
            (_, wire::reply::Result::Lease(lease)) => self.leased.extend(lease.held),
            (wire::request::Op::Release(released), _) => {
                self.leased =
                    std::mem::take(&mut self.leased).into_iter().flat_map(|held| without(held, *released)).collect();
            }
            (wire::request::Op::Acknowledge(acknowledge), answered) => {
                let done = acknowledge.done.unwrap_or_default();
                self.leased =
                    std::mem::take(&mut self.leased).into_iter().flat_map(|held| without(held, done)).collect();
                if let wire::reply::Result::Accounted(accounted) = answered {
                    self.acknowledged.push_back((accounted.lsn, done));
                    self.versions.add(accounted.lsn, &AcknowledgedVersions::from_wire(&acknowledge.versions));
                }
            }
            _ => {}
        }
        // A caller that has gone needs no answer.
        let _ = pending.answer.send(Ok(result));
    }

    fn resume(&self) -> wire::Resume {
        let acknowledged = self.acknowledged.iter().map(|(_, held)| *held).collect();
        wire::Resume { holds: self.leased.clone(), acknowledged, versions: self.versions.all().to_wire() }
    }

    fn request(&self, id: u64, op: wire::request::Op) -> wire::Request {
        let node = Some(wire::Node { name: self.worker.name.clone(), incarnation: self.worker.incarnation });
        wire::Request { id, node, op: Some(op) }
    }
}

/// The batches of a lease without the acknowledged ones.
fn without(held: wire::LeasedBatches, done: wire::LeasedBatches) -> Vec<wire::LeasedBatches> {
    if held.lease != done.lease {
        return vec![held];
    }
    let (end, done_end) = (held.first + held.count, done.first + done.count);
    let before = wire::LeasedBatches { count: done.first.clamp(held.first, end) - held.first, ..held };
    let first = done_end.clamp(held.first, end);
    let after = wire::LeasedBatches { first, count: end - first, ..held };
    [before, after].into_iter().filter(|left| left.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledged_batches_are_removed_from_the_leased_ones() {
        let held = |first, count| wire::LeasedBatches { lease: 1, first, count, ..wire::LeasedBatches::default() };
        assert_eq!(without(held(4, 4), held(4, 1)), [held(5, 3)]);
        assert_eq!(without(held(4, 4), held(5, 2)), [held(4, 1), held(7, 1)]);
        assert_eq!(without(held(4, 4), held(0, 99)), []);
        assert_eq!(without(held(4, 4), held(8, 2)), [held(4, 4)]);
        let other = wire::LeasedBatches { lease: 2, ..held(4, 4) };
        assert_eq!(without(other, held(4, 4)), [other]);
    }
}
