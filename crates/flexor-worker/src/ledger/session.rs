//! The session of a worker: requests and answers, and what has to be said again when it breaks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use flexor_ps::dial::{DialEndpoint, is_final};
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{LedgerError, WorkerName};

/// How long it waits before it looks for the master again.
const PAUSE: Duration = Duration::from_millis(50);
/// After how many attempts somebody is told: some seconds.
const TELL_EVERY: u64 = 100;
/// The number of the request that says again what the worker holds.
const COME_BACK: u64 = 1;

/// Something to be asked.
pub(super) struct Asked {
    pub(super) op: wire::request::Op,
    pub(super) answer: oneshot::Sender<Result<wire::reply::Result, LedgerError>>,
}

pub(super) struct Session {
    master: DialEndpoint,
    token: Option<Token>,
    worker: WorkerName,
    asked: mpsc::Receiver<Asked>,
    /// What was asked and not answered, by number.
    open: BTreeMap<u64, Asked>,
    last: u64,
    /// Leased and not acknowledged.
    holds: Vec<wire::Held>,
    /// Acknowledged, and which decision has to be durable before that need not be said again.
    acknowledged: VecDeque<(u64, wire::Held)>,
}

impl Session {
    pub(super) fn new(
        master: DialEndpoint,
        token: Option<Token>,
        worker: WorkerName,
        asked: mpsc::Receiver<Asked>,
    ) -> Self {
        let (holds, acknowledged) = (Vec::new(), VecDeque::new());
        Self { master, token, worker, asked, open: BTreeMap::new(), last: COME_BACK, holds, acknowledged }
    }

    /// Until nobody asks any more.
    pub(super) async fn run(mut self) {
        for attempt in 1_u64.. {
            if attempt.is_multiple_of(TELL_EVERY) {
                tracing::warn!(master = %self.master, attempt, "cannot be reached; goes on trying");
            }
            if let Ok(channel) = self.master.connect().await {
                let mut client = MasterClient::with_interceptor(channel, Token::carried(self.token.as_ref()));
                let (requests, receiver) = mpsc::channel(64);
                // Whatever is asked of a master comes after what it has to know.
                let back = self.request(COME_BACK, wire::request::Op::ComeBack(self.come_back()));
                let begun = match requests.send(back).await {
                    Ok(()) => client.session(ReceiverStream::new(receiver)).await,
                    Err(_) => Err(Status::unavailable("nobody takes the first word")),
                };
                match begun {
                    Ok(replies) => {
                        if self.talk(requests, replies.into_inner()).await.is_err() {
                            return;
                        }
                    }
                    Err(status) if is_final(&status) => return self.declined(status.message()).await,
                    Err(_) => {}
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Tells everybody who asks, or has asked, that the master will not speak with this worker.
    async fn declined(mut self, why: &str) {
        let waiting = std::mem::take(&mut self.open).into_values();
        for asked in waiting {
            let _ = asked.answer.send(Err(LedgerError::Declined(why.to_owned())));
        }
        while let Some(asked) = self.asked.recv().await {
            let _ = asked.answer.send(Err(LedgerError::Declined(why.to_owned())));
        }
    }

    /// Until the stream breaks; an error when nobody asks any more.
    async fn talk(
        &mut self,
        requests: mpsc::Sender<wire::Request>,
        mut replies: Streaming<wire::Reply>,
    ) -> Result<(), LedgerError> {
        let again: Vec<(u64, wire::request::Op)> =
            self.open.iter().map(|(id, asked)| (*id, asked.op.clone())).collect();
        for (id, op) in again {
            if requests.send(self.request(id, op)).await.is_err() {
                return Ok(());
            }
        }
        loop {
            tokio::select! {
                reply = replies.message() => match reply {
                    Ok(Some(reply)) => self.take(reply),
                    Ok(None) | Err(_) => return Ok(()),
                },
                asked = self.asked.recv() => {
                    let Some(asked) = asked else { return Err(LedgerError::Ended) };
                    self.last += 1;
                    let request = self.request(self.last, asked.op.clone());
                    self.open.insert(self.last, asked);
                    if requests.send(request).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn take(&mut self, reply: wire::Reply) {
        while self.acknowledged.front().is_some_and(|(lsn, _)| *lsn <= reply.durable_lsn) {
            self.acknowledged.pop_front();
        }
        let Some(result) = reply.result else { return };
        if reply.id == COME_BACK {
            if let wire::reply::Result::Void(void) = result {
                self.holds.retain(|held| !void.held.contains(held));
            }
            return;
        }
        let Some(asked) = self.open.remove(&reply.id) else { return };
        match (&asked.op, &result) {
            (_, wire::reply::Result::Lease(lease)) => self.holds.extend(lease.held),
            (wire::request::Op::GiveBack(back), _) => {
                self.holds =
                    std::mem::take(&mut self.holds).into_iter().flat_map(|held| without(held, *back)).collect();
            }
            (wire::request::Op::Acknowledge(wire::AcknowledgeBatches { done: Some(done), .. }), answered) => {
                self.holds =
                    std::mem::take(&mut self.holds).into_iter().flat_map(|held| without(held, *done)).collect();
                if let wire::reply::Result::Accounted(accounted) = answered {
                    self.acknowledged.push_back((accounted.lsn, *done));
                }
            }
            _ => {}
        }
        // Who does not wait any more does not want to know.
        let _ = asked.answer.send(Ok(result));
    }

    fn come_back(&self) -> wire::ComeBack {
        let acknowledged = self.acknowledged.iter().map(|(_, held)| *held).collect();
        wire::ComeBack { holds: self.holds.clone(), acknowledged }
    }

    fn request(&self, id: u64, op: wire::request::Op) -> wire::Request {
        let node = Some(wire::Node { name: self.worker.name.clone(), incarnation: self.worker.incarnation });
        wire::Request { id, node, op: Some(op) }
    }
}

/// What is left of batches of a lease when some of them are done.
fn without(held: wire::Held, done: wire::Held) -> Vec<wire::Held> {
    if held.lease != done.lease {
        return vec![held];
    }
    let (end, done_end) = (held.first + held.count, done.first + done.count);
    let before = wire::Held { count: done.first.clamp(held.first, end) - held.first, ..held };
    let first = done_end.clamp(held.first, end);
    let after = wire::Held { first, count: end - first, ..held };
    [before, after].into_iter().filter(|left| left.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_taken_out_of_what_is_held() {
        let held = |first, count| wire::Held { lease: 1, first, count, ..wire::Held::default() };
        assert_eq!(without(held(4, 4), held(4, 1)), [held(5, 3)]);
        assert_eq!(without(held(4, 4), held(5, 2)), [held(4, 1), held(7, 1)]);
        assert_eq!(without(held(4, 4), held(0, 99)), []);
        assert_eq!(without(held(4, 4), held(8, 2)), [held(4, 4)]);
        let other = wire::Held { lease: 2, ..held(4, 4) };
        assert_eq!(without(other, held(4, 4)), [other]);
    }
}
