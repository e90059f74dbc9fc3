//! Applies requests to a [`Keyspace`] as torch's libuv server does.
//!
//! It differs where that server is careless: a QUEUE_PUSH removes the waiter that it wakes, a new WAIT replaces an
//! unanswered one, and the size of an appended value is limited. COMPARE_SET wakes waiters when it creates the key; only
//! then can there be any.

use bytes::{Bytes, BytesMut};

use super::{Keyspace, decimal};
use crate::codec::{MAX_REQUEST, Reply, Request};
use crate::service::{ConnId, Outbox, Refused};

/// The longest value that APPEND may build, in bytes.
const MAX_APPENDED: usize = MAX_REQUEST;

impl Keyspace {
    /// Serves one request of a connection.
    pub(super) fn apply(&mut self, conn: ConnId, request: Request, out: &mut Outbox) -> Result<(), Refused> {
        let reply = match request {
            Request::Validate => None,
            Request::Set { key, value } => {
                self.set(key, value, out);
                None
            }
            Request::CompareSet { key, expected, desired } => {
                Some(Reply::Value(self.compare_set(key, expected, desired, out)))
            }
            Request::Get { key } => Some(Reply::Value(self.value_or_empty(&key))),
            Request::Add { key, delta } => Some(Reply::Number(self.add(key, delta, out)?)),
            Request::Check { keys } => Some(Reply::Present(keys.iter().all(|key| self.is_present(key)))),
            Request::Wait { mut keys } => {
                keys.retain(|key| !self.is_present(key));
                self.wait(conn, keys)
            }
            Request::GetNumKeys => Some(Reply::Number(number_of(self.len()))),
            Request::DeleteKey { key } => Some(Reply::Number(i64::from(self.delete(&key)))),
            Request::Append { key, value } => {
                self.append(key, &value, out)?;
                None
            }
            Request::MultiGet { keys } => {
                Some(Reply::Values(keys.iter().map(|key| self.value_or_empty(key)).collect()))
            }
            Request::MultiSet { pairs } => {
                pairs.into_iter().for_each(|(key, value)| self.set(key, value, out));
                None
            }
            Request::CancelWait => {
                self.waiters.cancel(conn);
                Some(Reply::WaitCanceled)
            }
            Request::Ping { nonce } => Some(Reply::Pong(nonce)),
            Request::QueuePush { key, value } => {
                self.push(key.clone(), value);
                self.waiters.item_pushed(&key, |woken| out.send(woken, Reply::StopWaiting));
                None
            }
            Request::QueuePop { key } => {
                Some(Reply::Popped { length: number_of(self.queues.len(&key)), value: self.pop(&key) })
            }
            Request::QueueLen { key } => Some(Reply::Number(number_of(self.queues.len(&key)))),
            Request::ListKeys => Some(Reply::Keys(self.entries.keys().cloned().collect())),
            Request::Barrier { key, world_size } => self.barrier(conn, key, world_size, out)?,
        };
        if let Some(reply) = reply {
            out.send(conn, reply);
        }
        Ok(())
    }

    fn compare_set(&mut self, key: Bytes, expected: Bytes, desired: Bytes, out: &mut Outbox) -> Bytes {
        match self.get(&key) {
            Some(present) if *present == expected => {
                self.write(key, desired.clone());
                desired
            }
            Some(present) => present.clone(),
            None if expected.is_empty() => {
                self.set(key, desired.clone(), out);
                desired
            }
            // The key does not exist and is not created, but torch's server replies with the expected value.
            None => expected,
        }
    }

    fn add(&mut self, key: Bytes, delta: i64, out: &mut Outbox) -> Result<i64, Refused> {
        let sum = self.number(&key)?.wrapping_add(delta);
        self.set(key, Bytes::from(sum.to_string()), out);
        Ok(sum)
    }

    fn append(&mut self, key: Bytes, more: &[u8], out: &mut Outbox) -> Result<(), Refused> {
        let present = self.get(&key).map_or(0, Bytes::len);
        if present + more.len() > MAX_APPENDED {
            let key = key.escape_ascii();
            let reason = format!("APPEND to '{key}' would make a value of more than {MAX_APPENDED} bytes");
            return Err(Refused { reason });
        }
        // A value without other references grows in place, so that many small appends do not copy it each time.
        let value = self.entries.get_mut(&key).map(|entry| std::mem::take(&mut entry.value)).unwrap_or_default();
        let mut grown = value.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        grown.extend_from_slice(more);
        self.set(key, grown.freeze(), out);
        Ok(())
    }

    fn barrier(
        &mut self,
        conn: ConnId,
        key: Bytes,
        world_size: i64,
        out: &mut Outbox,
    ) -> Result<Option<Reply>, Refused> {
        let arrived = self.number(&key)?.wrapping_add(1);
        self.write(key.clone(), Bytes::from(arrived.to_string()));
        if arrived < world_size {
            return Ok(self.wait(conn, vec![key]));
        }
        self.wake_all(&key, out);
        Ok(Some(Reply::StopWaiting))
    }

    fn wait(&mut self, conn: ConnId, missing: Vec<Bytes>) -> Option<Reply> {
        self.waiters.cancel(conn);
        if missing.is_empty() {
            return Some(Reply::StopWaiting);
        }
        self.waiters.wait(conn, missing);
        None
    }

    fn is_present(&self, key: &[u8]) -> bool {
        self.entries.contains_key(key) || self.queues.len(key) > 0
    }

    fn value_or_empty(&self, key: &[u8]) -> Bytes {
        self.get(key).cloned().unwrap_or_default()
    }

    /// The number that a key holds as text; 0 if the key does not exist.
    fn number(&self, key: &[u8]) -> Result<i64, Refused> {
        let Some(text) = self.get(key) else { return Ok(0) };
        decimal::parse(text).ok_or_else(|| {
            let (key, start) = (key.escape_ascii(), text[..text.len().min(32)].escape_ascii());
            Refused { reason: format!("'{key}' holds '{start}', which is not a number to count with; use another key") }
        })
    }
}

fn number_of(things: usize) -> i64 {
    i64::try_from(things).unwrap_or(i64::MAX)
}
