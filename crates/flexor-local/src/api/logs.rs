//! What a container has printed, from files that grow and are put aside when they are full.

mod folder_watch;
mod pages;
mod tail;

use std::io;
use std::path::PathBuf;

use flexor_model::DnsLabel;
use flexor_wire::local::v1::LogBytes;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use self::folder_watch::FolderWatch;
use self::pages::Pages;
use crate::cluster::{Cluster, WishError};

/// The log of a container.
pub(super) struct Log {
    uid: String,
    path: PathBuf,
}

type Sender = mpsc::Sender<Result<LogBytes, Status>>;

/// Where a container of a pod prints, the main one where none is named.
pub(super) fn find(
    cluster: &Cluster,
    namespace: &DnsLabel,
    pod: &str,
    container: Option<&str>,
) -> Result<Log, WishError> {
    let pod = cluster.pod_named(namespace, pod)?;
    let container = pod.container(container)?;
    if pod.trouble.is_some() {
        return Err(WishError::NotRunning { pod: pod.meta.name.clone(), container: container.to_owned() });
    }
    let path = cluster.home().pod(&pod.meta.uid).log(container);
    Ok(Log { path, uid: pod.meta.uid })
}

/// Everything that is there, or so many lines of its end; then what comes, where that is wanted.
pub(super) fn start(
    cluster: Cluster,
    log: Log,
    tail: Option<u64>,
    follow: bool,
) -> impl Stream<Item = Result<LogBytes, Status>> + Send {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let sent = send(&cluster, &log, tail, follow, &sender).await;
        if let Err(error) = sent {
            let _ = sender.send(Err(Status::internal(format!("{}: {error}", log.path.display())))).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn send(cluster: &Cluster, log: &Log, tail: Option<u64>, follow: bool, to: &Sender) -> io::Result<()> {
    // Whatever is printed from here on is noticed.
    let mut watch = FolderWatch::over(log.path.parent().unwrap_or(&log.path))?;
    let mut changes = cluster.changes();
    let mut pages = Pages::open(&log.path, tail)?;
    loop {
        // Asked before reading, so that what was printed last is not missed.
        let is_over = !follow || has_ended(cluster, &log.uid);
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
            permit.send(Ok(LogBytes { bytes: bytes.into() }));
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
    cluster.look(|all| all.pods.get(uid).is_none_or(|pod| pod.parent.is_none()))
}
