//! A store without sockets for the simulated master: values, and waits that are checked after every change.

use std::collections::BTreeMap;

use bytes::Bytes;
use flexor_wire::master::v1::KeyResult;

use crate::codec::{Chunks, Reply, Request};

/// A connection of a link.
pub(super) type LinkConnection = (u64, u64);

#[derive(Debug, Clone, Default)]
pub(in crate::sidecar) struct Store {
    pub(super) values: BTreeMap<Bytes, (u64, Bytes)>,
    pub(super) seq: u64,
    waits: BTreeMap<LinkConnection, PendingWait>,
}

#[derive(Debug, Clone)]
enum PendingWait {
    Keys(Vec<Bytes>),
    Count(Bytes, i64),
}

/// The result of an operation.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) reply: Option<Bytes>,
    /// The changes of the operation.
    pub(super) changed: Vec<KeyResult>,
    /// The changes that the reply shows.
    pub(super) shown: Vec<KeyResult>,
}

impl Store {
    pub(super) fn apply(&mut self, conn: LinkConnection, request: Request) -> Applied {
        match request {
            Request::Set { key, value } => Applied { changed: vec![self.set(key, value)], ..Applied::default() },
            Request::Append { key, value } => {
                let appended = [&self.value(&key)[..], &value].concat();
                Applied { changed: vec![self.set(key, appended.into())], ..Applied::default() }
            }
            Request::Get { key } => Applied {
                reply: Some(bytes(Reply::Value(self.value(&key)))),
                shown: self.show(&key),
                ..Applied::default()
            },
            Request::Add { key, delta } => {
                let sum = self.number(&key) + delta;
                let changed = vec![self.set(key, sum.to_string().into())];
                Applied { reply: Some(bytes(Reply::Number(sum))), changed, ..Applied::default() }
            }
            Request::CompareSet { key, expected, desired } if self.value(&key) == expected => {
                let changed = vec![self.set(key, desired.clone())];
                Applied { reply: Some(bytes(Reply::Value(desired))), changed, ..Applied::default() }
            }
            Request::CompareSet { key, .. } => Applied {
                reply: Some(bytes(Reply::Value(self.value(&key)))),
                shown: self.show(&key),
                ..Applied::default()
            },
            Request::Wait { keys } => {
                self.waits.insert(conn, PendingWait::Keys(keys));
                Applied::default()
            }
            Request::Barrier { key, world_size } => {
                let count = self.number(&key) + 1;
                let changed = vec![self.set(key.clone(), count.to_string().into())];
                self.waits.insert(conn, PendingWait::Count(key, world_size));
                Applied { changed, ..Applied::default() }
            }
            Request::CancelWait => {
                self.waits.remove(&conn);
                Applied { reply: Some(bytes(Reply::WaitCanceled)), ..Applied::default() }
            }
            other => panic!("no program asks for {other:?}"),
        }
    }

    /// Resumes a wait that was counted before the crash.
    pub(super) fn wait_again(&mut self, conn: LinkConnection, request: Request) {
        let wait = match request {
            Request::Wait { keys } => PendingWait::Keys(keys),
            Request::Barrier { key, world_size } => PendingWait::Count(key, world_size),
            other => panic!("{other:?} is no wait"),
        };
        self.waits.insert(conn, wait);
    }

    pub(super) fn cancel(&mut self, conn: LinkConnection) {
        self.waits.remove(&conn);
    }

    /// Takes the fulfilled waits, each with the changes that its reply shows.
    pub(super) fn take_finished_waits(&mut self) -> Vec<(LinkConnection, Vec<KeyResult>)> {
        let is_over = |wait: &PendingWait| match wait {
            PendingWait::Keys(keys) => keys.iter().all(|key| self.values.contains_key(key)),
            PendingWait::Count(key, size) => self.number(key) >= *size,
        };
        let over: Vec<LinkConnection> =
            self.waits.iter().filter(|(_, wait)| is_over(wait)).map(|(conn, _)| *conn).collect();
        let woken = over.into_iter().map(|conn| match self.waits.remove(&conn) {
            Some(PendingWait::Keys(keys)) => (conn, keys.iter().flat_map(|key| self.show(key)).collect()),
            Some(PendingWait::Count(key, _)) => (conn, self.show(&key)),
            None => unreachable!("the wait was found above"),
        });
        woken.collect()
    }

    pub(super) fn restore(&mut self, result: &KeyResult) {
        self.seq = self.seq.max(result.seq);
        let value = result.value.clone().expect("no program deletes");
        let entry = self.values.entry(result.key.clone()).or_default();
        if entry.0 < result.seq {
            *entry = (result.seq, value);
        }
    }

    pub(in crate::sidecar) fn value(&self, key: &Bytes) -> Bytes {
        self.values.get(key).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    fn number(&self, key: &Bytes) -> i64 {
        std::str::from_utf8(&self.value(key)).unwrap().parse().unwrap_or(0)
    }

    fn set(&mut self, key: Bytes, value: Bytes) -> KeyResult {
        self.seq += 1;
        self.values.insert(key.clone(), (self.seq, value.clone()));
        KeyResult { seq: self.seq, key, value: Some(value), ..KeyResult::default() }
    }

    fn show(&self, key: &Bytes) -> Vec<KeyResult> {
        let shown = self.values.get(key).map(|(seq, value)| KeyResult {
            seq: *seq,
            key: key.clone(),
            value: Some(value.clone()),
            ..KeyResult::default()
        });
        shown.into_iter().collect()
    }
}

pub(super) fn bytes(reply: Reply) -> Bytes {
    use bytes::Buf;
    let mut chunks = Chunks::default();
    reply.encode(&mut chunks);
    chunks.copy_to_bytes(chunks.len())
}
