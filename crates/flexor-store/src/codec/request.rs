//! Requests of clients.

use bytes::{BufMut, Bytes, BytesMut};

use super::layout::Scan;
use super::{DecodeError, MAGIC, Opcode};

/// One request. Keys and values are opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The greeting, with the magic number; no reply.
    Validate,
    /// Stores a value; no reply.
    Set { key: Bytes, value: Bytes },
    /// Stores a value if the key has the expected one. The reply is the value afterwards.
    CompareSet {
        key: Bytes,
        /// The value that the key must have; empty if it must not exist.
        expected: Bytes,
        desired: Bytes,
    },
    /// Reads a value.
    Get { key: Bytes },
    /// Adds to a number that is kept as decimal text.
    Add { key: Bytes, delta: i64 },
    /// Asks whether all keys exist.
    Check { keys: Vec<Bytes> },
    /// Waits until all keys exist.
    Wait { keys: Vec<Bytes> },
    /// Asks for the number of keys.
    GetNumKeys,
    /// Removes a key.
    DeleteKey { key: Bytes },
    /// Adds bytes at the end of a value; no reply.
    Append { key: Bytes, value: Bytes },
    /// Reads several values.
    MultiGet { keys: Vec<Bytes> },
    /// Stores several values; no reply.
    MultiSet { pairs: Vec<(Bytes, Bytes)> },
    /// Cancels an unanswered WAIT or BARRIER.
    CancelWait,
    /// Asks for the same nonce.
    Ping { nonce: u32 },
    /// Adds an item at the end of a queue; no reply.
    QueuePush { key: Bytes, value: Bytes },
    /// Removes the first item of a queue, if there is one.
    QueuePop { key: Bytes },
    /// Asks for the length of a queue.
    QueueLen { key: Bytes },
    /// Asks for all keys.
    ListKeys,
    /// Increments a count and waits until it reaches `world_size`.
    Barrier {
        /// The key of the count.
        key: Bytes,
        world_size: i64,
    },
}

impl Request {
    /// The same request with a prefix before every key.
    pub fn with_prefix(self, prefix: &[u8]) -> Request {
        let long = |key: Bytes| -> Bytes { [prefix, &key].concat().into() };
        let all = |keys: Vec<Bytes>| keys.into_iter().map(long).collect();
        match self {
            Request::Set { key, value } => Request::Set { key: long(key), value },
            Request::CompareSet { key, expected, desired } => Request::CompareSet { key: long(key), expected, desired },
            Request::Get { key } => Request::Get { key: long(key) },
            Request::Add { key, delta } => Request::Add { key: long(key), delta },
            Request::Check { keys } => Request::Check { keys: all(keys) },
            Request::Wait { keys } => Request::Wait { keys: all(keys) },
            Request::DeleteKey { key } => Request::DeleteKey { key: long(key) },
            Request::Append { key, value } => Request::Append { key: long(key), value },
            Request::MultiGet { keys } => Request::MultiGet { keys: all(keys) },
            Request::MultiSet { pairs } => {
                Request::MultiSet { pairs: pairs.into_iter().map(|(key, value)| (long(key), value)).collect() }
            }
            Request::QueuePush { key, value } => Request::QueuePush { key: long(key), value },
            Request::QueuePop { key } => Request::QueuePop { key: long(key) },
            Request::QueueLen { key } => Request::QueueLen { key: long(key) },
            Request::Barrier { key, world_size } => Request::Barrier { key: long(key), world_size },
            Request::Validate
            | Request::GetNumKeys
            | Request::CancelWait
            | Request::Ping { .. }
            | Request::ListKeys => self,
        }
    }

    pub fn opcode(&self) -> Opcode {
        match self {
            Request::Validate => Opcode::Validate,
            Request::Set { .. } => Opcode::Set,
            Request::CompareSet { .. } => Opcode::CompareSet,
            Request::Get { .. } => Opcode::Get,
            Request::Add { .. } => Opcode::Add,
            Request::Check { .. } => Opcode::Check,
            Request::Wait { .. } => Opcode::Wait,
            Request::GetNumKeys => Opcode::GetNumKeys,
            Request::DeleteKey { .. } => Opcode::DeleteKey,
            Request::Append { .. } => Opcode::Append,
            Request::MultiGet { .. } => Opcode::MultiGet,
            Request::MultiSet { .. } => Opcode::MultiSet,
            Request::CancelWait => Opcode::CancelWait,
            Request::Ping { .. } => Opcode::Ping,
            Request::QueuePush { .. } => Opcode::QueuePush,
            Request::QueuePop { .. } => Opcode::QueuePop,
            Request::QueueLen { .. } => Opcode::QueueLen,
            Request::ListKeys => Opcode::ListKeys,
            Request::Barrier { .. } => Opcode::Barrier,
        }
    }

    /// Parses bytes that are exactly one request, within the limits of the protocol.
    pub fn parse(frame: &[u8]) -> Result<Request, DecodeError> {
        match Scan::default().advance(frame)? {
            None => Err(DecodeError::Truncated(frame.len())),
            Some(length) if length < frame.len() => Err(DecodeError::TrailingBytes(frame.len() - length)),
            Some(_) => Request::of_whole(frame),
        }
    }

    /// Encodes the request.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u8(self.opcode() as u8);
        match self {
            Request::Validate => out.put_u32_le(MAGIC),
            Request::Set { key, value } | Request::Append { key, value } | Request::QueuePush { key, value } => {
                put_bytes(out, key);
                put_bytes(out, value);
            }
            Request::CompareSet { key, expected, desired } => {
                put_bytes(out, key);
                put_bytes(out, expected);
                put_bytes(out, desired);
            }
            Request::Get { key }
            | Request::DeleteKey { key }
            | Request::QueuePop { key }
            | Request::QueueLen { key } => put_bytes(out, key),
            Request::Add { key, delta: number } | Request::Barrier { key, world_size: number } => {
                put_bytes(out, key);
                out.put_i64_le(*number);
            }
            Request::Check { keys } | Request::Wait { keys } | Request::MultiGet { keys } => {
                out.put_u64_le(keys.len() as u64);
                keys.iter().for_each(|key| put_bytes(out, key));
            }
            Request::MultiSet { pairs } => {
                out.put_u64_le(pairs.len() as u64);
                for (key, value) in pairs {
                    put_bytes(out, key);
                    put_bytes(out, value);
                }
            }
            Request::Ping { nonce } => out.put_u32_le(*nonce),
            Request::GetNumKeys | Request::CancelWait | Request::ListKeys => {}
        }
    }

    /// The encoded request.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(&mut out);
        out.freeze()
    }

    /// Reads a frame that a scan has found to be complete.
    pub(super) fn of_whole(frame: &[u8]) -> Result<Request, DecodeError> {
        let mut fields = Fields(frame);
        let [opcode] = fields.array().ok_or(DecodeError::Truncated(frame.len()))?;
        read_arguments(Opcode::try_from(opcode)?, &mut fields).ok_or(DecodeError::Truncated(frame.len()))
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u64_le(bytes.len() as u64);
    out.put_slice(bytes);
}

fn read_arguments(opcode: Opcode, fields: &mut Fields<'_>) -> Option<Request> {
    Some(match opcode {
        Opcode::Validate => fields.array::<4>().map(|_| Request::Validate)?,
        Opcode::Set => Request::Set { key: fields.bytes()?, value: fields.bytes()? },
        Opcode::CompareSet => {
            Request::CompareSet { key: fields.bytes()?, expected: fields.bytes()?, desired: fields.bytes()? }
        }
        Opcode::Get => Request::Get { key: fields.bytes()? },
        Opcode::Add => Request::Add { key: fields.bytes()?, delta: fields.array().map(i64::from_le_bytes)? },
        Opcode::Check => Request::Check { keys: fields.keys()? },
        Opcode::Wait => Request::Wait { keys: fields.keys()? },
        Opcode::GetNumKeys => Request::GetNumKeys,
        Opcode::DeleteKey => Request::DeleteKey { key: fields.bytes()? },
        Opcode::Append => Request::Append { key: fields.bytes()?, value: fields.bytes()? },
        Opcode::MultiGet => Request::MultiGet { keys: fields.keys()? },
        Opcode::MultiSet => {
            let count = fields.array().map(u64::from_le_bytes)?;
            let pairs = (0..count).map(|_| Some((fields.bytes()?, fields.bytes()?)));
            Request::MultiSet { pairs: pairs.collect::<Option<_>>()? }
        }
        Opcode::CancelWait => Request::CancelWait,
        Opcode::Ping => Request::Ping { nonce: fields.array().map(u32::from_le_bytes)? },
        Opcode::QueuePush => Request::QueuePush { key: fields.bytes()?, value: fields.bytes()? },
        Opcode::QueuePop => Request::QueuePop { key: fields.bytes()? },
        Opcode::QueueLen => Request::QueueLen { key: fields.bytes()? },
        Opcode::ListKeys => Request::ListKeys,
        Opcode::Barrier => {
            Request::Barrier { key: fields.bytes()?, world_size: fields.array().map(i64::from_le_bytes)? }
        }
    })
}

/// The unread part of a frame.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = self.array().map(u64::from_le_bytes)?;
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(Bytes::copy_from_slice(bytes))
    }

    fn keys(&mut self) -> Option<Vec<Bytes>> {
        let count = self.array().map(u64::from_le_bytes)?;
        (0..count).map(|_| self.bytes()).collect()
    }
}
