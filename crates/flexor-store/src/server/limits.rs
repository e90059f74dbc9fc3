//! The limits for clients of a server.

use std::time::Duration;

/// The limits of a server. The defaults suit a job of ten thousand nodes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most open connections. Further ones are closed at once.
    pub connections: usize,
    /// The time from the connection to its VALIDATE.
    pub validate_within: Duration,
    /// The time from the first byte of a request to its last.
    pub request_within: Duration,
    /// The most unread bytes of one client. Beyond them its connection is closed.
    pub outgoing: usize,
    /// From this many unread bytes on, no further request of the client is read.
    pub pause_reading_at: usize,
    /// The most bytes of incomplete requests of all clients. Beyond them, connections with more than [`SMALL_REQUEST`] bytes
    /// are closed.
    pub incomplete: usize,
}

/// An incomplete request up to this size never closes its connection.
pub(super) const SMALL_REQUEST: usize = 64 << 10;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16_384,
            validate_within: Duration::from_secs(10),
            request_within: Duration::from_secs(20),
            outgoing: 64 << 20,
            pause_reading_at: 4 << 20,
            incomplete: 256 << 20,
        }
    }
}
