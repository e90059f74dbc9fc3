//! Decoding errors. Every one ends its connection: after an invalid field, the start of the next request is unknown.

use super::{MAGIC, MAX_KEY, MAX_KEYS, MAX_REQUEST, MAX_VALUE};

/// Bytes that are not a request of a torch 2.2 or later client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The connection did not begin with VALIDATE.
    #[error(
        "the first request has opcode {0}, not 0 (VALIDATE): no TCPStore client, or an old one; torch >= 2.2 is required"
    )]
    NotValidated(u8),
    /// VALIDATE came with another number than the protocol's.
    #[error("VALIDATE carries {found:#010x} instead of {MAGIC:#010x}: this is no TCPStore client of torch >= 2.2")]
    WrongMagic { found: u32 },
    /// An opcode that no known version of torch sends.
    #[error("unknown opcode {0}; known are 0 to 18, those of torch 2.2 to 2.15")]
    UnknownOpcode(u8),
    /// A key above [`MAX_KEY`].
    #[error("a key of {0} bytes is longer than the {MAX_KEY} that are allowed")]
    KeyTooLong(u64),
    /// A value above [`MAX_VALUE`].
    #[error("a value of {0} bytes is longer than the {MAX_VALUE} that are allowed; store large data elsewhere")]
    ValueTooLong(u64),
    /// More than [`MAX_KEYS`] keys.
    #[error("{0} keys in one request are more than the {MAX_KEYS} that are allowed; send several requests")]
    TooManyKeys(u64),
    /// A request above [`MAX_REQUEST`].
    #[error("a request of more than {MAX_REQUEST} bytes in all; send several smaller ones")]
    RequestTooLong,
    /// Bytes that should be exactly one request end too early.
    #[error("the request is cut off after {0} bytes")]
    Truncated(usize),
    /// Bytes that should be exactly one request continue after its end.
    #[error("{0} bytes follow the end of the request")]
    TrailingBytes(usize),
}
