//! The store of one round for this node's workers: an address of this machine that leads to the master's store.
//!
//! Its keys get a prefix of the round, so that no process ever finds what another round has left.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use flexor_client::Upstream;
use flexor_store::sidecar::{Pod, Sidecar};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::FixedStore;

/// Dropping it ends the store.
pub(super) struct RoundStore {
    address: SocketAddr,
    fixed: Option<FixedStore>,
    stop: Option<oneshot::Sender<()>>,
    _task: JoinHandle<()>,
}

impl RoundStore {
    /// Serves the keys of a round of a run.
    pub(super) async fn start(master: Upstream, node: &str, run: &str, round: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let pod = Pod { name: node.to_owned(), uid: String::new() };
        let sidecar = Sidecar::new(listener, pod, master)?.with_prefix(prefix(run, round));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let ended = sidecar.run(async { drop(stopped.await) }).await;
            tracing::debug!(?ended, "the store of the round has ended");
        });
        Ok(Self { address, fixed: None, stop: Some(stop), _task: task })
    }

    /// Makes the store reachable at a fixed address, until it ends.
    pub(super) fn at(mut self, fixed: Option<&FixedStore>) -> Self {
        if let Some(fixed) = fixed {
            fixed.publish(self.address);
        }
        self.fixed = fixed.cloned();
        self
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RoundStore {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(fixed) = &self.fixed {
            fixed.withdraw(self.address);
        }
    }
}

/// The prefix of a round's keys in the master's store. The master forgets keys of this shape some rounds later, as it does
/// those of torchrun.
pub(super) fn prefix(run: &str, round: u64) -> String {
    format!("/torch.rendezvous.{run}.{round}/workers/")
}
