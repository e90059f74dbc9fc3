//! What the verbs of another terminal speak to: a socket in the cluster's folder that only its owner can open.
//!
//! [`serve`] stands beside the cluster and shows it as Kubernetes would, object by object, and takes wishes; [`Client`] is
//! the other end. The verbs see nothing of the cluster but those objects, so that a client of a Kubernetes cluster can
//! stand in this one's place.

mod about;
mod client;
mod conversation;
mod holder;
mod logs;
mod notes;
mod objects;
mod processes;
mod service;
mod socket;
mod usage;
mod watching;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use flexor_wire::local::v1::local_server::LocalServer;
use nix::unistd::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;

pub use self::client::{Change, Client, ClientError, LogOptions, Printed};
use self::conversation::Conversations;
pub use self::holder::Holder;
pub use self::objects::REPLACED_ANNOTATION;
use self::service::Service;
use self::socket::Reach;
use crate::cluster::Cluster;
use crate::state_dir::StateDir;
pub use flexor_wire::local::v1::{Outcome, Resource};

/// Whoever still reads what was printed has so long to come to the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Serves until it is dropped.
pub struct Served {
    socket: PathBuf,
    closing: watch::Sender<bool>,
    open: Conversations,
    server: JoinHandle<()>,
}

/// Serves a cluster in its folder. To be called inside a runtime.
///
/// # Errors
///
/// The socket cannot be made.
pub fn serve(cluster: Cluster) -> io::Result<Served> {
    let socket = cluster.state_dir().socket();
    let listener = listen(cluster.state_dir())?;
    let owner = geteuid().as_raw();
    // The mode of the file says so already; this also holds for whoever was quicker than that.
    let is_owner = move |stream: &UnixStream| stream.peer_cred().is_ok_and(|peer| [0, owner].contains(&peer.uid()));
    let open = Conversations::new();
    let begin = {
        let open = open.clone();
        move |stream: io::Result<UnixStream>| {
            stream.ok().filter(is_owner).map(|stream| io::Result::Ok(open.begin(stream)))
        }
    };
    let streams = UnixListenerStream::new(listener).filter_map(begin);
    let (closing, closed) = watch::channel(false);
    let service = Service::new(cluster, closed);
    let server =
        tonic::transport::Server::builder().add_service(LocalServer::new(service)).serve_with_incoming(streams);
    let server = tokio::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "other terminals cannot be answered any more");
        }
    });
    Ok(Served { socket, closing, open, server })
}

impl Served {
    /// Ends once everybody has the answers that were asked for, which takes no longer than a moment.
    pub async fn finish(self) {
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.open.end()).await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
        // Whoever comes now finds that nothing runs here, which is so.
        let _ = fs::remove_file(&self.socket);
    }
}

/// A socket for its owner alone, in the place of any that an earlier cluster left.
fn listen(state_dir: &StateDir) -> io::Result<UnixListener> {
    let path = state_dir.socket();
    let half = path.with_extension("half");
    match fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(Reach::of(&half)?.path())?;
    fs::set_permissions(&half, Permissions::from_mode(0o600))?;
    fs::rename(&half, path)?;
    Ok(listener)
}
