//! The sidecar over real sockets: clients on one side, on the other a master that is killed and started again.

mod client;
mod link_server;
mod outages;
mod unwelcome;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use flexor_client::Upstream;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Ended, Pod, Sidecar};

/// Longer than anything here takes, shorter than anybody's patience.
const SOON: Duration = Duration::from_secs(20);

/// A running sidecar; dropping it asks it to stop.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
}

impl Running {
    async fn beside(master: SocketAddr, token_file: Option<PathBuf>) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Upstream::new(&master.to_string(), token_file).unwrap();
        let pod = Pod { name: "worker-0".to_owned(), uid: "uid-0".to_owned() };
        let sidecar = Sidecar::new(listener, pod, upstream).unwrap();
        let (stop, stopped) = oneshot::channel();
        // Dropping the sender stops it as well.
        let task = tokio::spawn(sidecar.run(async { _ = stopped.await }));
        Running { address, stop, task }
    }

    async fn end(self) -> Ended {
        let _ = self.stop.send(());
        soon(self.task).await.unwrap()
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("this should have happened by now")
}
