//! The sidecar over real sockets, between clients and a master that is killed and restarted.

mod client;
mod link_server;
mod outages;
mod refusals;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flexor_client::Upstream;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Pod, Sidecar, SidecarEnd};

/// The timeout of every step; far longer than a step takes.
const SOON: Duration = Duration::from_secs(20);

/// A running sidecar, which stops when it is dropped.
struct Running {
    address: SocketAddr,
    /// Its second port.
    other_address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<SidecarEnd>,
}

impl Running {
    async fn start(master: SocketAddr, token_file: Option<PathBuf>) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Upstream::new(&master.to_string(), token_file).unwrap();
        let pod = Pod { name: "worker-0".to_owned(), uid: "uid-0".to_owned() };
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other_address = other.local_addr().unwrap();
        let sidecar = Sidecar::new(listener, pod, upstream).unwrap().also_at(other).unwrap();
        let (stop, stopped) = oneshot::channel();
        // Dropping the sender stops the sidecar too.
        let task = tokio::spawn(sidecar.run(async { _ = stopped.await }));
        Running { address, other_address, stop, task }
    }

    async fn end(self) -> SidecarEnd {
        let _ = self.stop.send(());
        soon(self.task).await.unwrap()
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("the step completes within its timeout")
}

/// Lets a minute pass at once, with everything that happens in it.
async fn a_minute_passes() {
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    tokio::time::resume();
}
