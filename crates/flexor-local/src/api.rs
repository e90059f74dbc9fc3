//! The API of the laptop cluster: gRPC over a socket in its state directory, which only its owner can open.
//!
//! [`serve`] runs beside the cluster. It shows the cluster's objects in the shape that Kubernetes gives them and takes
//! requests; [`Client`] is the other end. The verbs see nothing but those objects, so a client of a Kubernetes cluster
//! can replace this one.

mod client;
mod cluster_info;
mod cluster_process;
mod connections;
mod job_metrics;
mod logs;
mod notes;
mod objects;
mod owner_listener;
mod processes;
mod resource_watch;
mod service;
mod socket_path;
mod usage;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use flexor_listen::HttpServer;
use flexor_wire::local::v1::local_server::LocalServer;
use nix::unistd::geteuid;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::service::Routes;

pub use self::client::{Change, Client, ClientError, LogChunk, LogOptions};
pub use self::cluster_process::ClusterProcess;
use self::connections::Connections;
pub use self::objects::REPLACED_ANNOTATION;
use self::owner_listener::OwnerListener;
use self::service::Service;
use self::socket_path::SocketPath;
use crate::cluster::Cluster;
use crate::state_dir::StateDir;
pub use flexor_wire::local::v1::{Outcome, Resource};

/// Clients that still read an answer have this long to read it to its end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The running API server. Dropping it closes the socket.
pub struct ApiServer {
    socket: PathBuf,
    closing: watch::Sender<bool>,
    open: Connections,
    server: JoinHandle<()>,
}

/// Serves a cluster on the socket of its state directory. Has to be called inside a runtime.
///
/// # Errors
///
/// The socket cannot be created.
pub fn serve(cluster: Cluster) -> io::Result<ApiServer> {
    let socket = cluster.state_dir().socket();
    let listener = listen(cluster.state_dir())?;
    let open = Connections::new();
    let listener = OwnerListener { listener, owner: geteuid().as_raw(), open: open.clone() };
    let (closing, closed) = watch::channel(false);
    let service = Service::new(cluster, closed);
    let routes = Routes::new(LocalServer::new(service)).into_axum_router();
    let server = tokio::spawn(async move { HttpServer::grpc().serve(&listener, routes).await });
    Ok(ApiServer { socket, closing, open, server })
}

impl ApiServer {
    /// Ends the watches and waits, for at most two seconds, until clients have read their answers.
    pub async fn finish(self) {
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.open.all_closed()).await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.server.abort();
        // A client that connects from now on finds that no cluster runs here.
        let _ = fs::remove_file(&self.socket);
    }
}

/// Binds a socket that only its owner can open. It replaces one that an earlier cluster left.
fn listen(state_dir: &StateDir) -> io::Result<UnixListener> {
    let path = state_dir.socket();
    let half = path.with_extension("half");
    match fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(SocketPath::of(&half)?.path())?;
    fs::set_permissions(&half, Permissions::from_mode(0o600))?;
    fs::rename(&half, path)?;
    Ok(listener)
}
