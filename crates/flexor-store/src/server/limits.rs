//! How much of the machine clients may use.

use std::time::Duration;

/// What the server grants. The defaults suit a job of ten thousand nodes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most connections at a time; further ones are closed at once.
    pub connections: usize,
    /// How long a new connection may take to say VALIDATE.
    pub validate_within: Duration,
    /// How long a request may take from its first byte to its last.
    pub request_within: Duration,
    /// Most bytes that may wait for one client to read them; beyond, its connection is closed.
    pub outgoing: usize,
    /// From how many waiting bytes on no further request of that client is read.
    pub pause_reading_at: usize,
    /// Most bytes of begun requests of all clients together; beyond, connections that hold more than a fair share of
    /// [`SMALL_REQUEST`] bytes are closed.
    pub incomplete: usize,
}

/// A begun request up to this size is never the reason for a shortage of memory.
pub(super) const SMALL_REQUEST: usize = 64 << 10;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            validate_within: Duration::from_secs(10),
            request_within: Duration::from_secs(60),
            outgoing: 64 << 20,
            pause_reading_at: 4 << 20,
            incomplete: 256 << 20,
        }
    }
}
