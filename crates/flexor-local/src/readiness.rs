//! Waiting for a descriptor to become readable.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor to wait until it is readable.
#[expect(
    deprecated,
    reason = "what was unsound are types whose descriptor changes; an OwnedFd's does not, and the new way is unsafe code"
)]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
