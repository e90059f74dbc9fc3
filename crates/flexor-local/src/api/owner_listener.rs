//! The listening socket of the API, which accepts connections of the cluster's owner and of root alone.

use std::io;

use flexor_listen::Listen;
use tokio::net::UnixListener;

use super::connections::{Connection, Connections};

pub(super) struct OwnerListener {
    pub(super) listener: UnixListener,
    /// The user who runs the cluster.
    pub(super) owner: u32,
    pub(super) open: Connections,
}

impl Listen for OwnerListener {
    type Stream = Connection;
    type Peer = &'static str;

    async fn next(&self) -> io::Result<(Connection, &'static str)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            // The file's mode keeps others out already; this also holds for one that connected before the mode was set.
            if stream.peer_cred().is_ok_and(|peer| [0, self.owner].contains(&peer.uid())) {
                return Ok((self.open.add(stream), "a client of the API"));
            }
        }
    }
}
