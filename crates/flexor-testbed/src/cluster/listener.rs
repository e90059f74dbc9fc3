//! Listens in a cluster's network, for a test that answers the programs in it.
//!
//! As in [`super::connector`], the socket belongs to the namespace of the thread that created it and works from any
//! thread.

use std::{
    io,
    net::{SocketAddr, TcpListener as BlockingListener},
    sync::Arc,
};

use nix::sched::{CloneFlags, setns};
use tokio::net::TcpListener;

use super::Cluster;
use crate::keeper::Sandbox;

impl Cluster {
    /// Listens in the cluster's network. To be called in a tokio runtime.
    pub fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let listener = match self.keeper.sandbox() {
            Sandbox::Loopback { .. } => BlockingListener::bind(address)?,
            Sandbox::Namespaces { network, .. } => {
                let network = Arc::clone(network);
                // Not a thread of tokio's pool: it must not go back there with another network.
                let bound = std::thread::Builder::new().name("testbed-listen".into()).spawn(move || {
                    setns(&*network, CloneFlags::CLONE_NEWNET)?;
                    BlockingListener::bind(address)
                })?;
                bound.join().map_err(|_| io::Error::other("the listening thread panicked"))??
            }
        };
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    }
}
