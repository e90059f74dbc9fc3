//! The native API: carries out one request of a node, from a single call or from a session.

use std::time::Duration;

use bytes::Bytes;
use flexor_engine::Cause;
use flexor_engine::ledger::WorkerId;
use flexor_engine::rendezvous::{Event, MemberId, Processes};
use flexor_model::{Reason, Round};
use flexor_store::codec::Request as StoreRequest;
use flexor_store::service::{ConnId, Outbox, Service};
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;
use wire::request::Op;

use super::data_calls;
use crate::job::{Job, NodeEvent};

/// The longest wait of one call.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_NAME: usize = 253;
/// The most processes of a node. Bounds the sum over all nodes.
const MAX_PROCESSES: u32 = 1 << 16;

/// The last round that a node may name. Bounds round numbers, so that later rounds can follow.
const LAST_ROUND: u64 = 1 << 48;

/// The prefix of the keys of the native API, which separates them from those of TCPStore's clients.
const KEY_PREFIX: &str = "flexor/";

/// Carries out a request and returns the reply.
pub(super) async fn answer(job: &Job, request: wire::Request) -> wire::Reply {
    let id = request.id;
    let result = carry_out(job, request).await.unwrap_or_else(Answer::Refusal);
    reply(job, id, result)
}

/// A reply with the fields that every reply has.
pub(super) fn reply(job: &Job, id: u64, result: Answer) -> wire::Reply {
    wire::Reply {
        id,
        generation: job.generation().0,
        durable_seq: job.durable_mark(),
        result: Some(result),
        durable_lsn: job.data().durable_lsn(),
    }
}

/// The incarnation of a node that sent a request.
pub(super) fn member_of(request: &wire::Request) -> Result<MemberId, wire::Refusal> {
    member_id(request.node.as_ref())
}

/// The worker that sent a request about batches; none for other requests.
pub(super) fn worker_of(request: &wire::Request) -> Option<WorkerId> {
    match request.op {
        Some(Op::Lease(_) | Op::Acknowledge(_) | Op::Release(_) | Op::Resume(_) | Op::Evaluate(_)) => {
            member_of(request).ok().map(worker)
        }
        Some(_) | None => None,
    }
}

fn worker(id: MemberId) -> WorkerId {
    WorkerId::new(id.name, id.incarnation)
}

fn member_id(node: Option<&wire::Node>) -> Result<MemberId, wire::Refusal> {
    let node = node.ok_or_else(|| refusal("the request names no node"))?;
    if node.name.is_empty() || node.name.len() > MAX_NAME {
        return Err(refusal(format!("a node's name has 1 to {MAX_NAME} characters")));
    }
    Ok(MemberId::new(node.name.as_str(), node.incarnation))
}

async fn carry_out(job: &Job, request: wire::Request) -> Result<Answer, wire::Refusal> {
    let done = Answer::Done(wire::Done {});
    let member = member_of(&request);
    match request.op.ok_or_else(|| refusal("this version does not know the operation of the request"))? {
        Op::Join(join) => {
            let id = member?;
            let processes = Processes { count: join.processes.clamp(1, MAX_PROCESSES), survive: join.survives };
            let is_fenced = job.with(|state, now, out| {
                if let Some(after) = join.after {
                    state.skip_rounds_through(job.run(), Round(after.min(LAST_ROUND)));
                }
                state.apply(job.run(), Event::Join { id: id.clone(), processes }, now, out);
                state.rendezvous(job.run()).is_some_and(|run| run.closed().is_none() && run.state_of(&id).is_none())
            });
            if is_fenced {
                let detail = format!("a later incarnation of {} has joined", id.name);
                return Err(wire::Refusal { reason: Reason::NodeFenced.to_string(), detail });
            }
            Ok(Answer::World(job.world_for(&id, false)))
        }
        Op::Leave(_) => {
            let id = member?;
            job.with(|state, now, out| state.apply(job.run(), Event::Leave { id }, now, out));
            Ok(done)
        }
        Op::Finish(_) => {
            let id = member?;
            job.with(|state, now, out| state.apply(job.run(), Event::Finish { id }, now, out));
            Ok(done)
        }
        Op::Depart(depart) => {
            let id = member?;
            let cause = Cause::new(Reason::LauncherGaveUp, depart.detail);
            job.with(|state, now, out| state.apply(job.run(), Event::Lost { id, cause }, now, out));
            Ok(done)
        }
        Op::OptIn(_) => {
            let id = member?;
            job.with(|state, now, out| state.apply(job.run(), Event::OptIn { id }, now, out));
            Ok(done)
        }
        Op::Heartbeat(_) => {
            let id = member?;
            job.with(|state, now, out| state.apply(job.run(), Event::Heartbeat { id }, now, out));
            Ok(done)
        }
        Op::Poll(poll) => Ok(Answer::World(wait_for_world(job, &member?, &poll).await)),
        Op::Set(set) => {
            let seq = change(job, StoreRequest::Set { key: key(&set.key)?, value: set.value }).await?.1;
            if set.durable {
                job.make_durable(seq).await.map_err(|error| refusal(error.to_string()))?;
            }
            Ok(done)
        }
        Op::Get(get) => {
            let key = key(&get.key)?;
            let found =
                job.with(|state, _, _| state.keyspace().mutation_of(&key).zip(state.keyspace().get(&key).cloned()));
            Ok(Answer::Value(match found {
                Some((mutation, value)) => wire::Value { present: true, value, seq: mutation.seq },
                None => wire::Value::default(),
            }))
        }
        Op::Add(add) => {
            let request = StoreRequest::Add { key: key(&add.key)?, delta: add.amount };
            let (reply, seq) = change(job, request).await?;
            let value = reply.as_ref().try_into().map(i64::from_le_bytes).unwrap_or_default();
            Ok(Answer::Count(wire::Count { value, seq }))
        }
        Op::Delete(delete) => {
            change(job, StoreRequest::DeleteKey { key: key(&delete.key)? }).await?;
            Ok(done)
        }
        Op::Wait(wait) => Ok(Answer::Found(wire::Found { all: wait_for_keys(job, wait).await? })),
        Op::Metrics(metrics) => {
            let id = member?;
            let (now, rewind_epoch) = (job.clock().now(), job.servers().rewind_epoch());
            let result = job.with_reports(|reports| {
                reports.learning.add(&metrics.values, now, rewind_epoch);
                reports.take_metrics(&id.name, metrics.values)
            });
            result.map_err(refusal)?;
            if let Some(load) = metrics.load {
                job.with_reports(|reports| reports.take_load(&id.name, load, now));
            }
            if let Some(updates) = &metrics.updates {
                job.servers().record_updates(&worker(id), updates);
            }
            if metrics.at_once {
                let delivery = job.report_delivery();
                delivery.delivered(delivery.publish(), job.is_recovering()).await;
            }
            Ok(done)
        }
        Op::Event(event) => {
            let id = member?;
            let at = job.clock().wall().0;
            let event = NodeEvent { at, node: id.name.to_string(), reason: event.reason, message: event.message };
            job.with_reports(|reports| reports.take_event(event.clone())).map_err(refusal)?;
            tracing::info!(node = %id, reason = %event.reason, message = %event.message, "reported");
            Ok(done)
        }
        Op::Register(dataset) => data_calls::register(job, dataset).await,
        Op::Lease(lease) => data_calls::lease(job, &worker(member?), lease).await,
        Op::Acknowledge(acknowledge) => data_calls::acknowledge(job, &worker(member?), acknowledge).await,
        Op::Release(held) => data_calls::release(job, &worker(member?), held).await,
        Op::Resume(back) => data_calls::resume(job, &worker(member?), back).await,
        Op::Evaluate(request) => data_calls::evaluate(job, &worker(member?), request).await,
        Op::Evaluated(evaluated) => {
            if let Some(scores) = job.evaluations().finish(&worker(member?), &evaluated) {
                let rewind_epoch = job.servers().rewind_epoch();
                job.with_reports(|reports| reports.learning.evaluated(scores, rewind_epoch));
            }
            // The worker may end then.
            let delivery = job.report_delivery();
            delivery.delivered(delivery.publish(), job.is_recovering()).await;
            Ok(done)
        }
        Op::Position(_) => Ok(data_calls::position(job)),
        Op::Restore(restore) => data_calls::restore(job, &restore).await,
        Op::Ended(ended) => {
            let round = ended.round.map(Round);
            for one in &ended.workers {
                let worker = worker(member_id(one.worker.as_ref())?);
                data_calls::ended(job, &worker, one.ending, round).await?;
            }
            Ok(done)
        }
    }
}

/// Applies a request to the keys. Returns the bytes of the reply and the sequence number of the last change. Waits while
/// the journal takes no records.
async fn change(job: &Job, request: StoreRequest) -> Result<(Bytes, u64), wire::Refusal> {
    let (reply, seq, is_paused) = job.with(|state, now, out| {
        let conn = ConnId::fresh();
        let mut sent = Outbox::default();
        let result = state.keyspace_mut().request(conn, request, now, &mut sent);
        let mut reply = Bytes::new();
        for (to, bytes) in sent.take_sent() {
            if to == conn { reply = bytes } else { out.send_bytes(to, bytes) }
        }
        let seq = state.keyspace().last_seq();
        state.settle(now, out);
        result.map(|()| (reply, seq, state.is_paused())).map_err(|refused| refusal(refused.reason))
    })?;
    if is_paused {
        job.make_durable(seq).await.map_err(|error| refusal(error.to_string()))?;
    }
    Ok((reply, seq))
}

async fn wait_for_world(job: &Job, id: &MemberId, poll: &wire::Poll) -> wire::World {
    let mut changes = job.with(|state, now, out| {
        state.apply(job.run(), Event::Heartbeat { id: id.clone() }, now, out);
        state.changes()
    });
    let deadline = tokio::time::sleep(Duration::from_millis(poll.wait_ms.into()).min(MAX_WAIT));
    tokio::pin!(deadline);
    loop {
        let world = job.world_for(id, poll.members);
        let in_world = world.state() == wire::world::MemberState::InWorld;
        let new_enough = poll.from_round.is_none_or(|round| in_world && world.round >= round);
        if new_enough || !world.restart.is_empty() || !world.closed.is_empty() {
            return world;
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = &mut deadline => return world,
        }
    }
}

async fn wait_for_keys(job: &Job, wait: wire::WaitKeys) -> Result<bool, wire::Refusal> {
    let keys = wait.keys.iter().map(|name| key(name)).collect::<Result<Vec<_>, _>>()?;
    let all_exist = || job.with(|state, _, _| keys.iter().all(|key| state.keyspace().get(key).is_some()));
    if all_exist() {
        return Ok(true);
    }
    if wait.wait_ms == 0 {
        return Ok(false);
    }
    let waiter = super::session::KeyWaiter::register(job, keys.clone());
    let limit = Duration::from_millis(wait.wait_ms.into()).min(MAX_WAIT);
    let is_woken = tokio::time::timeout(limit, waiter.woken()).await.is_ok();
    Ok(is_woken || all_exist())
}

fn key(name: &str) -> Result<Bytes, wire::Refusal> {
    if name.is_empty() || name.len() > 4096 {
        return Err(refusal("a key has 1 to 4096 characters"));
    }
    Ok(Bytes::from(format!("{KEY_PREFIX}{name}")))
}

fn refusal(detail: impl Into<String>) -> wire::Refusal {
    wire::Refusal { reason: Reason::ProtocolViolation.to_string(), detail: detail.into() }
}
