//! The store of a round for this node's workers: an address of this machine behind which the master's store stands, with
//! keys of the round's own, so that no process ever finds what another round has left.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use flexor_client::Upstream;
use flexor_store::sidecar::{Pod, Sidecar};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Ended with its guard.
pub(super) struct RoundStore {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    _task: JoinHandle<()>,
}

impl RoundStore {
    /// Serves the keys of a round of a run.
    pub(super) async fn begin(master: Upstream, node: &str, run: &str, round: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let pod = Pod { name: node.to_owned(), uid: String::new() };
        let sidecar = Sidecar::new(listener, pod, master)?.with_prefix(prefix(run, round));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let ended = sidecar.run(async { drop(stopped.await) }).await;
            tracing::debug!(?ended, "the store of the round has ended");
        });
        Ok(Self { address, stop: Some(stop), _task: task })
    }

    /// Where the workers find it.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RoundStore {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

/// What stands before every key of a round in the master's store. The master forgets keys of this shape some rounds
/// later, as it does those of torchrun.
pub(super) fn prefix(run: &str, round: u64) -> String {
    format!("/torch.rendezvous.{run}.{round}/workers/")
}
