//! The bytes of the c10d TCPStore protocol, as torch 2.2 and later speak it.
//!
//! A [`Decoder`] turns what a socket delivers, in whatever pieces, into [`Request`]s; a [`Reply`] turns into [`Chunks`]
//! that a socket can send. Both directions of a request are here, because tests, load generators and the proxy are
//! clients too. Nothing in this module keeps state of the store or touches a socket.
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

/// What a client says after VALIDATE, to show that it speaks this protocol.
pub const MAGIC: u32 = 0x3C85_F7CE;
/// Longest key, in bytes.
pub const MAX_KEY: usize = 8 << 10;
/// Longest value in a request, in bytes.
pub const MAX_VALUE: usize = 8 << 20;
/// Most keys in one request.
pub const MAX_KEYS: usize = 131_072;
/// Longest request as a whole, in bytes: what MAX_KEYS values of MAX_VALUE each must not add up to.
pub const MAX_REQUEST: usize = 64 << 20;
