//! Sockets without TIME_WAIT, and the limit of open files.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use flexor_store::codec::Request;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

/// The timeout of every read.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Raises the limit of open files as far as the machine allows.
pub(crate) fn allow_many() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")
}

/// A socket that is reset when it is closed, so that thousands of them do not use up the ports for the next run.
pub(crate) fn new() -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    Ok(socket)
}

/// A connected blocking socket.
pub(crate) fn connected(address: SocketAddr) -> Result<Socket> {
    let socket = new()?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(&address.into()).with_context(|| format!("cannot connect to {address}"))?;
    Ok(socket)
}

/// The first bytes of a client, and the length of the reply.
pub(crate) fn greeting() -> (Bytes, usize) {
    let mut bytes = BytesMut::new();
    Request::Validate.encode(&mut bytes);
    Request::Ping { nonce: std::process::id() }.encode(&mut bytes);
    (bytes.freeze(), 4)
}
