//! The log of a container, read from files that grow and are rotated when they are full.
//!
//! A log that is followed goes on with the pod's replacement if that has the same name.

mod folder_watch;
mod log_files;
mod successor;
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
use self::log_files::LogFiles;
use self::successor::{SlotPod, Successor};
use crate::cluster::{ApiError, Cluster};

pub(super) struct Log {
    pod: SlotPod,
    container: String,
}

#[derive(Clone, Copy)]
pub(super) struct LogRange {
    /// Only so many of the last lines.
    pub tail: Option<u64>,
    /// Also what is printed later.
    pub follow: bool,
}

type Sender = mpsc::Sender<Result<LogBytes, Status>>;

/// The log of a container of a pod, of the main one if none is named.
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
    Ok(Log { container: container.to_owned(), pod: SlotPod::of(&pod) })
}

/// Streams a log until the client hangs up, nothing more will be printed, or the cluster ends.
pub(super) fn start(
    cluster: Cluster,
    mut log: Log,
    mut range: LogRange,
    mut closed: watch::Receiver<bool>,
) -> impl Stream<Item = Result<LogBytes, Status>> + Send {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        loop {
            let path = cluster.state_dir().pod(&log.pod.uid).log(&log.container);
            match send(&cluster, &log.pod.uid, &path, range, &sender).await {
                Ok(()) => {}
                // The pod was removed before its log could be opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_gone(&cluster, &log.pod.uid) => {}
                Err(error) => {
                    let _ = sender.send(Err(Status::internal(format!("{}: {error}", path.display())))).await;
                    return;
                }
            }
            if !range.follow {
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
            // All of the replacement's log is new.
            range.tail = None;
        }
    });
    ReceiverStream::new(receiver)
}

/// Sends what is in the log, or its last lines; then what is printed later, if the log is followed.
async fn send(cluster: &Cluster, uid: &str, path: &Path, range: LogRange, to: &Sender) -> io::Result<()> {
    // The watch begins before the first read, so that no change is missed.
    let mut watch = FolderWatch::over(path.parent().unwrap_or(path))?;
    let mut changes = cluster.changes();
    let mut files = LogFiles::open(path, range.tail)?;
    loop {
        // This is checked before reading, so that the last lines are not missed.
        let is_over = !range.follow || has_ended(cluster, uid);
        changes.mark_unchanged();
        files.open_current()?;
        while let Some(bytes) = files.read()? {
            // While a slow client reads, files that are rotated are opened before they are removed.
            let permit = loop {
                tokio::select! {
                    permit = to.reserve() => break permit,
                    changed = watch.changed() => {
                        changed?;
                        files.open_current()?;
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

/// Whether nothing more will be printed: the supervisor, which writes the log, has ended.
fn has_ended(cluster: &Cluster, uid: &str) -> bool {
    cluster.read(|all| all.pods.get(uid).is_none_or(|pod| pod.supervisor.is_none()))
}

fn is_gone(cluster: &Cluster, uid: &str) -> bool {
    cluster.read(|all| !all.pods.contains_key(uid))
}

/// Waits for the replacement of a pod; none if there will be none.
async fn successor(cluster: &Cluster, of: &SlotPod) -> Option<SlotPod> {
    let mut changes = cluster.changes();
    loop {
        changes.mark_unchanged();
        match cluster.read(|all| successor::after(of, all)) {
            Successor::Started(pod) => return Some(pod),
            Successor::None => return None,
            Successor::Pending => changes.changed().await.ok()?,
        }
    }
}
