//! What a container has printed, from files that grow and are put aside when they are full.
//!
//! A log that is followed goes on with the pod's successor where one comes under its name.

mod folder_watch;
mod pages;
mod succession;
mod tail;

use std::io;
use std::path::Path;

use flexor_model::DnsLabel;
use flexor_wire::local::v1::LogBytes;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use self::folder_watch::FolderWatch;
use self::pages::Pages;
use self::succession::{Next, Occupant};
use crate::cluster::{ApiError, Cluster};

/// The log of a container.
pub(super) struct Log {
    pod: Occupant,
    container: String,
}

/// How much of a log.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Only so many lines from the end of what is there.
    pub tail: Option<u64>,
    /// Also what comes.
    pub follow: bool,
}

type Sender = mpsc::Sender<Result<LogBytes, Status>>;

/// Where a container of a pod prints, the main one where none is named.
pub(super) fn find(
    cluster: &Cluster,
    namespace: &DnsLabel,
    pod: &str,
    container: Option<&str>,
) -> Result<Log, ApiError> {
    let pod = cluster.pod_named(namespace, pod)?;
    let container = pod.container(container)?;
    if pod.trouble.is_some() {
        return Err(ApiError::NotRunning { pod: pod.meta.desired.name.clone(), container: container.to_owned() });
    }
    Ok(Log { container: container.to_owned(), pod: Occupant::of(&pod) })
}

/// What is wanted of a log, until nobody listens, nothing more will be printed, or the cluster ends.
pub(super) fn start(
    cluster: Cluster,
    mut log: Log,
    mut wanted: Wanted,
    mut closed: watch::Receiver<bool>,
) -> impl Stream<Item = Result<LogBytes, Status>> + Send {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        loop {
            let path = cluster.state_dir().pod(&log.pod.uid).log(&log.container);
            match send(&cluster, &log.pod.uid, &path, wanted, &sender).await {
                Ok(()) => {}
                // It went before anybody could look.
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_gone(&cluster, &log.pod.uid) => {}
                Err(error) => {
                    let _ = sender.send(Err(Status::internal(format!("{}: {error}", path.display())))).await;
                    return;
                }
            }
            if !wanted.follow {
                return;
            }
            let successor = tokio::select! {
                successor = successor(&cluster, &log.pod) => successor,
                () = sender.closed() => return,
                _ = closed.wait_for(|is_closed| *is_closed) => return,
            };
            let Some(successor) = successor else { return };
            let replaced = LogBytes { replaced: true, ..LogBytes::default() };
            if sender.send(Ok(replaced)).await.is_err() {
                return;
            }
            log.pod = successor;
            // Nobody has seen anything of it.
            wanted.tail = None;
        }
    });
    ReceiverStream::new(receiver)
}

/// Everything that is there, or so many lines of its end; then what comes, where that is wanted.
async fn send(cluster: &Cluster, uid: &str, path: &Path, wanted: Wanted, to: &Sender) -> io::Result<()> {
    // Whatever is printed from here on is noticed.
    let mut watch = FolderWatch::over(path.parent().unwrap_or(path))?;
    let mut changes = cluster.changes();
    let mut pages = Pages::open(path, wanted.tail)?;
    loop {
        // Asked before reading, so that what was printed last is not missed.
        let is_over = !wanted.follow || has_ended(cluster, uid);
        changes.mark_unchanged();
        pages.turn()?;
        while let Some(bytes) = pages.read()? {
            // However slow whoever reads is: what is printed meanwhile is opened before it is removed.
            let permit = loop {
                tokio::select! {
                    permit = to.reserve() => break permit,
                    changed = watch.changed() => {
                        changed?;
                        pages.turn()?;
                    }
                }
            };
            let Ok(permit) = permit else { return Ok(()) };
            permit.send(Ok(LogBytes { bytes: bytes.into(), replaced: false }));
        }
        if is_over {
            return Ok(());
        }
        tokio::select! {
            () = to.closed() => return Ok(()),
            changed = watch.changed() => changed?,
            _ = changes.changed() => {}
        }
    }
}

/// Whether nothing more will be printed: whoever writes the log is gone.
fn has_ended(cluster: &Cluster, uid: &str) -> bool {
    cluster.look(|all| all.pods.get(uid).is_none_or(|pod| pod.supervisor.is_none()))
}

fn is_gone(cluster: &Cluster, uid: &str) -> bool {
    cluster.look(|all| !all.pods.contains_key(uid))
}

/// Waits for the pod that comes in the place of another; nothing where none will.
async fn successor(cluster: &Cluster, of: &Occupant) -> Option<Occupant> {
    let mut changes = cluster.changes();
    loop {
        changes.mark_unchanged();
        match cluster.look(|all| succession::after(of, all)) {
            Next::Pod(pod) => return Some(pod),
            Next::Nobody => return None,
            Next::NotYet => changes.changed().await.ok()?,
        }
    }
}
