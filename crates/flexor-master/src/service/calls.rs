//! One request of a node, whether it came alone or over a session.

use std::time::Duration;

use bytes::Bytes;
use flexor_engine::Because;
use flexor_engine::rendezvous::{Event, MemberId, Processes};
use flexor_engine::shards::WorkerId;
use flexor_model::{Reason, Round};
use flexor_store::codec::Request as StoreRequest;
use flexor_store::service::{ConnId, Outbox, Service};
use flexor_wire::master::v1 as wire;
use wire::reply::Result as Answer;
use wire::request::Op;

use super::data_calls;
use crate::job::{Job, NodeEvent};

/// Nobody waits longer than this in one call.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_NAME: usize = 253;
/// More processes than any node has; so that their numbers can be counted.
const MAX_PROCESSES: u32 = 1 << 16;

/// A later one than any job has; so that others can follow it.
const LAST_ROUND: u64 = 1 << 48;

/// The keys of the native API stand apart from those of TCPStore's clients.
const KEY_PREFIX: &str = "flexor/";

/// Carries out a request.
pub(super) async fn answer(job: &Job, request: wire::Request) -> wire::Reply {
    let id = request.id;
    let result = carry_out(job, request).await.unwrap_or_else(Answer::Refusal);
    reply(job, id, result)
}

/// A reply with what every reply says.
pub(super) fn reply(job: &Job, id: u64, result: Answer) -> wire::Reply {
    wire::Reply {
        id,
        generation: job.generation().0,
        durable_seq: job.durable_mark(),
        result: Some(result),
        durable_lsn: job.data().durable_lsn(),
    }
}

/// The life of a node that a request speaks for.
pub(super) fn member_of(request: &wire::Request) -> Result<MemberId, wire::Refusal> {
    life_of(request.node.as_ref())
}

/// The worker that a request about batches speaks for, if it is one.
pub(super) fn worker_of(request: &wire::Request) -> Option<WorkerId> {
    match request.op {
        Some(Op::Lease(_) | Op::Acknowledge(_) | Op::GiveBack(_) | Op::ComeBack(_) | Op::Evaluate(_)) => {
            member_of(request).ok().map(worker)
        }
        Some(_) | None => None,
    }
}

fn worker(id: MemberId) -> WorkerId {
    WorkerId::new(id.name, id.incarnation)
}

fn life_of(node: Option<&wire::Node>) -> Result<MemberId, wire::Refusal> {
    let node = node.ok_or_else(|| refusal("the request names no node"))?;
    if node.name.is_empty() || node.name.len() > MAX_NAME {
        return Err(refusal(format!("a node's name has 1 to {MAX_NAME} characters")));
    }
    Ok(MemberId::new(node.name.as_str(), node.incarnation))
}

async fn carry_out(job: &Job, request: wire::Request) -> Result<Answer, wire::Refusal> {
    let done = Answer::Done(wire::Done {});
    let member = member_of(&request);
    match request.op.ok_or_else(|| refusal("the request asks for nothing that this version knows"))? {
        Op::Join(join) => {
            let id = member?;
            let processes = Processes { count: join.processes.clamp(1, MAX_PROCESSES), survive: join.survives };
            let fenced = job.with(|store, now, out| {
                if let Some(after) = join.after {
                    store.skip_round(job.run(), Round(after.min(LAST_ROUND)));
                }
                store.tell(job.run(), Event::Join { id: id.clone(), processes }, now, out);
                store.machine(job.run()).is_some_and(|run| run.closed().is_none() && run.place_of(&id).is_none())
            });
            if fenced {
                let detail = format!("a later life of {} has joined", id.name);
                return Err(wire::Refusal { reason: Reason::NodeFenced.to_string(), detail });
            }
            Ok(Answer::World(job.world_for(&id, false)))
        }
        Op::Leave(_) => {
            let id = member?;
            job.with(|store, now, out| store.tell(job.run(), Event::Leave { id }, now, out));
            Ok(done)
        }
        Op::Finish(_) => {
            let id = member?;
            job.with(|store, now, out| store.tell(job.run(), Event::Finish { id }, now, out));
            Ok(done)
        }
        Op::Depart(depart) => {
            let id = member?;
            let because = Because::new(Reason::LauncherGaveUp, depart.detail);
            job.with(|store, now, out| store.tell(job.run(), Event::Gone { id, because }, now, out));
            Ok(done)
        }
        Op::OptIn(_) => {
            let id = member?;
            job.with(|store, now, out| store.tell(job.run(), Event::OptIn { id }, now, out));
            Ok(done)
        }
        Op::Beat(_) => {
            let id = member?;
            job.with(|store, now, out| store.tell(job.run(), Event::Heard { id }, now, out));
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
                job.with(|store, _, _| store.keyspace().mutation_of(&key).zip(store.keyspace().get(&key).cloned()));
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
            let now = job.clock().now();
            let taken = job.with_reports(|reports| {
                reports.learning.take(&metrics.values, now);
                reports.take_metrics(&id.name, metrics.values)
            });
            taken.map_err(refusal)?;
            if let Some(updates) = &metrics.updates
                && let Err(because) = job.servers().record_updates(&worker(id), updates)
            {
                // The worker says it again, and is not to blame for a full disk.
                tracing::warn!(%because, "what came of a worker's pushes cannot be written down");
            }
            if metrics.at_once {
                let audience = job.audience();
                audience.has_heard(audience.say(), job.is_recovering()).await;
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
        Op::GiveBack(held) => data_calls::give_back(job, &worker(member?), held).await,
        Op::ComeBack(back) => data_calls::come_back(job, &worker(member?), back).await,
        Op::Evaluate(asked) => data_calls::evaluate(job, &worker(member?), asked).await,
        Op::Evaluated(said) => {
            if let Some(scores) = job.evaluations().finish(&worker(member?), &said) {
                job.with_reports(|reports| reports.learning.measured(scores));
            }
            job.audience().say();
            Ok(done)
        }
        Op::Position(_) => Ok(data_calls::position(job)),
        Op::Restore(restore) => data_calls::restore(job, &restore).await,
        Op::Ended(ended) => {
            let round = ended.round.map(Round);
            for one in &ended.workers {
                let worker = worker(life_of(one.worker.as_ref())?);
                data_calls::ended(job, &worker, one.ending, round).await?;
            }
            Ok(done)
        }
    }
}

/// Applies a request to the keys; the reply's bytes and the number of the last change. While nothing can be written
/// down, it waits until it is.
async fn change(job: &Job, request: StoreRequest) -> Result<(Bytes, u64), wire::Refusal> {
    let (reply, seq, paused) = job.with(|store, now, out| {
        let conn = ConnId::fresh();
        let mut sent = Outbox::default();
        let result = store.keyspace_mut().request(conn, request, now, &mut sent);
        let mut reply = Bytes::new();
        for (to, bytes) in sent.take_sent() {
            if to == conn { reply = bytes } else { out.send_bytes(to, bytes) }
        }
        let seq = store.keyspace().last_seq();
        store.settle(now, out);
        result.map(|()| (reply, seq, store.is_paused())).map_err(|refused| refusal(refused.reason))
    })?;
    if paused {
        job.make_durable(seq).await.map_err(|error| refusal(error.to_string()))?;
    }
    Ok((reply, seq))
}

async fn wait_for_world(job: &Job, id: &MemberId, poll: &wire::Poll) -> wire::World {
    let mut changes = job.with(|store, now, out| {
        store.tell(job.run(), Event::Heard { id: id.clone() }, now, out);
        store.changes()
    });
    let deadline = tokio::time::sleep(Duration::from_millis(poll.wait_ms.into()).min(MAX_WAIT));
    tokio::pin!(deadline);
    loop {
        let world = job.world_for(id, poll.members);
        let in_world = world.place == i32::from(wire::world::Place::InWorld);
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
    let here = || job.with(|store, _, _| keys.iter().all(|key| store.keyspace().get(key).is_some()));
    if here() {
        return Ok(true);
    }
    if wait.wait_ms == 0 {
        return Ok(false);
    }
    let waiter = super::session::KeyWaiter::register(job, keys.clone());
    let limit = Duration::from_millis(wait.wait_ms.into()).min(MAX_WAIT);
    let came = tokio::time::timeout(limit, waiter.came()).await.is_ok();
    Ok(came || here())
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
