//! Replies. Their bytes carry no type: the client knows the shape from its request.

use bytes::{Buf as _, Bytes};

use super::Chunks;

/// The byte that ends a fulfilled WAIT or BARRIER.
pub const STOP_WAITING: u8 = 0;
/// The byte that ends a cancelled WAIT or BARRIER.
pub const WAIT_CANCELED: u8 = 1;

/// A reply of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To GET and COMPARE_SET: a value.
    Value(Bytes),
    /// To MULTI_GET: values in the order of the keys, without a count.
    Values(Vec<Bytes>),
    /// To LIST_KEYS: the keys, with a count.
    Keys(Vec<Bytes>),
    /// To ADD, GETNUMKEYS, DELETE_KEY and QUEUE_LEN: a number.
    Number(i64),
    /// To CHECK: whether all keys exist.
    Present(bool),
    /// To WAIT and BARRIER.
    StopWaiting,
    /// To CANCEL_WAIT.
    WaitCanceled,
    /// To PING: its number.
    Pong(u32),
    /// To QUEUE_POP: how many items there were, and the first if there was one.
    Popped { length: i64, value: Option<Bytes> },
}

impl Reply {
    /// The encoded reply.
    pub fn into_bytes(self) -> Bytes {
        let mut chunks = Chunks::default();
        self.encode(&mut chunks);
        chunks.copy_to_bytes(chunks.len())
    }

    /// Encodes the reply.
    pub fn encode(self, out: &mut Chunks) {
        match self {
            Reply::Value(value) => put_bytes(out, value),
            Reply::Values(values) => values.into_iter().for_each(|value| put_bytes(out, value)),
            Reply::Keys(keys) => {
                out.push(&(keys.len() as u64).to_le_bytes());
                keys.into_iter().for_each(|key| put_bytes(out, key));
            }
            Reply::Number(number) => out.push(&number.to_le_bytes()),
            Reply::Present(present) => out.push(&[u8::from(!present)]),
            Reply::StopWaiting => out.push(&[STOP_WAITING]),
            Reply::WaitCanceled => out.push(&[WAIT_CANCELED]),
            Reply::Pong(nonce) => out.push(&nonce.to_le_bytes()),
            Reply::Popped { length, value } => {
                out.push(&length.to_le_bytes());
                value.into_iter().for_each(|value| put_bytes(out, value));
            }
        }
    }
}

fn put_bytes(out: &mut Chunks, bytes: Bytes) {
    out.push(&(bytes.len() as u64).to_le_bytes());
    out.push_shared(bytes);
}
