//! The bytes of the c10d TCPStore protocol, as torch 2.2 and later speak it.
//!
//! A [`Decoder`] turns the bytes of a socket, in pieces of any size, into [`Request`]s. A [`Reply`] turns into [`Chunks`]
//! that a socket can send. Requests can be encoded too, because tests, load generators and the sidecar are clients. The
//! codec has no state of the store and touches no socket.
//!
//! All integers are little-endian. `bytes` is a u64 length and that many bytes; a list is a u64 count and its items.

mod chunks;
mod decoder;
mod error;
mod layout;
mod opcode;
mod reply;
mod request;

pub use self::{
    chunks::Chunks,
    decoder::Decoder,
    error::DecodeError,
    opcode::Opcode,
    reply::{Reply, STOP_WAITING, WAIT_CANCELED},
    request::Request,
};

/// The number that a client sends with VALIDATE, to show that it speaks this protocol.
pub const MAGIC: u32 = 0x3C85_F7CE;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 8 << 10;
/// The longest value in a request, in bytes.
pub const MAX_VALUE: usize = 8 << 20;
/// The most keys in one request.
pub const MAX_KEYS: usize = 131_072;
/// The longest request, in bytes. Bounds the sum of its keys and values.
pub const MAX_REQUEST: usize = 64 << 20;
