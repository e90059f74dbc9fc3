//! The clock of the race: a watch on the pods of a namespace, with the time at which each change arrived.
//!
//! It is independent of the operator. Both ends of a measured interval arrive over the same connection, so that its
//! delay is in neither.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{TryStreamExt as _, pin_mut};
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use tokio::task::JoinHandle;

use super::api::{self, Api};

/// How often a waiting caller looks. Changes carry their times, so this is in no measurement.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A change of a pod, and when the watch delivered it.
#[derive(Debug, Clone)]
pub(super) struct PodChange {
    pub(super) at: Instant,
    pub(super) kind: ChangeKind,
    pub(super) pod: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The ADDED event.
    Added,
    /// The first event that shows the phase Running.
    Running,
    /// The DELETED event.
    Deleted,
}

/// A watch from its start; dropping it ends it.
pub(super) struct PodWatch {
    history: Arc<Mutex<History>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct History {
    changes: Vec<PodChange>,
    /// Uids of pods that have been seen running.
    running: HashSet<String>,
    failure: Option<String>,
}

/// The fields of a pod that are read.
#[derive(Debug, Clone, Deserialize)]
struct WatchedPod {
    metadata: WatchedMetadata,
    #[serde(default)]
    status: WatchedStatus,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatchedMetadata {
    name: String,
    uid: String,
    resource_version: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct WatchedStatus {
    #[serde(default)]
    phase: String,
}

impl PodWatch {
    /// Watches the pods of a namespace; those that exist already do not count.
    pub(super) async fn start(api: &Api, namespace: &str) -> Result<Self> {
        let path = api::pods(namespace);
        let list = api.get(&format!("{path}?limit=1")).await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list without a version")?.to_owned();
        let history = Arc::new(Mutex::new(History::default()));
        let (client, kept) = (api.client(), Arc::clone(&history));
        let task = tokio::spawn(async move {
            if let Err(error) = follow(client, &path, version, &kept).await {
                lock(&kept).failure = Some(format!("{error:#}"));
            }
        });
        Ok(Self { history, task })
    }

    /// How many changes there are so far: the beginning of what a later look is about.
    pub(super) fn position(&self) -> usize {
        lock(&self.history).changes.len()
    }

    /// The changes from a position on.
    pub(super) fn since(&self, position: usize) -> Vec<PodChange> {
        lock(&self.history).changes[position..].to_vec()
    }

    /// Waits until `look` finds something in the changes from a position on.
    pub(super) async fn find<T>(
        &self,
        limit: Duration,
        what: &str,
        position: usize,
        mut look: impl FnMut(&[PodChange]) -> Option<T>,
    ) -> Result<T> {
        let began = Instant::now();
        loop {
            {
                let history = lock(&self.history);
                if let Some(found) = look(&history.changes[position..]) {
                    return Ok(found);
                }
                if let Some(failure) = &history.failure {
                    bail!("the watch on pods broke while waiting for {what}: {failure}");
                }
                if began.elapsed() > limit {
                    let counts = [ChangeKind::Added, ChangeKind::Running, ChangeKind::Deleted]
                        .map(|kind| format!("{kind:?} {}", count(&history.changes[position..], kind)));
                    bail!("waited {limit:?} for {what}; seen since: {}", counts.join(", "));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until this many changes of a kind have come since a position.
    pub(super) async fn await_count(
        &self,
        limit: Duration,
        position: usize,
        kind: ChangeKind,
        wanted: usize,
    ) -> Result<()> {
        let what = format!("{wanted} pods: {kind:?}");
        self.find(limit, &what, position, |changes| (count(changes, kind) >= wanted).then_some(())).await
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn count(changes: &[PodChange], kind: ChangeKind) -> usize {
    changes.iter().filter(|change| change.kind == kind).count()
}

/// The time of the first change of this kind to a pod.
pub(super) fn first(changes: &[PodChange], kind: ChangeKind, pod: &str) -> Option<Instant> {
    changes.iter().find(|change| change.kind == kind && change.pod == pod).map(|change| change.at)
}

/// Pods that were added, per second from the first to the last.
pub(super) fn rate_of_creation(changes: &[PodChange]) -> Result<f64> {
    let added: Vec<Instant> =
        changes.iter().filter(|change| change.kind == ChangeKind::Added).map(|change| change.at).collect();
    let (first, last) = added.first().zip(added.last()).context("no pod was added")?;
    let seconds = last.duration_since(*first).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "some thousands of pods")]
    let after_first = (added.len() - 1) as f64;
    Ok(after_first / seconds)
}

async fn follow(client: Client, path: &str, mut version: String, history: &Mutex<History>) -> Result<()> {
    loop {
        let request = Request::new(path).watch(&WatchParams::default(), &version)?;
        let events = client.request_events::<WatchedPod>(request).await?;
        pin_mut!(events);
        // The API server ends every watch after some minutes.
        while let Some(event) = events.try_next().await? {
            let at = Instant::now();
            let (kind, pod) = match event {
                WatchEvent::Added(pod) => (Some(ChangeKind::Added), pod),
                WatchEvent::Modified(pod) => (None, pod),
                WatchEvent::Deleted(pod) => (Some(ChangeKind::Deleted), pod),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => bail!("{status:?}"),
            };
            let WatchedMetadata { name, uid, resource_version } = pod.metadata;
            version = resource_version;
            let mut history = lock(history);
            if let Some(kind) = kind {
                history.changes.push(PodChange { at, kind, pod: name.clone() });
            }
            let is_here = kind != Some(ChangeKind::Deleted);
            if is_here && pod.status.phase == "Running" && history.running.insert(uid) {
                history.changes.push(PodChange { at, kind: ChangeKind::Running, pod: name });
            }
        }
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_counts_pods_after_the_first() {
        let began = Instant::now();
        let added = |ms: u64| PodChange {
            at: began + Duration::from_millis(ms),
            kind: ChangeKind::Added,
            pod: format!("p-{ms}"),
        };
        let deleted = PodChange { kind: ChangeKind::Deleted, ..added(900) };
        assert_eq!(rate_of_creation(&[added(0), added(250), added(500), deleted.clone()]).unwrap(), 4.0);
        assert!(rate_of_creation(&[deleted]).is_err());
    }

    #[test]
    fn the_first_change_of_a_kind_counts() {
        let (began, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let change = |at, kind| PodChange { at, kind, pod: "a".to_owned() };
        let changes =
            [change(began, ChangeKind::Deleted), change(began, ChangeKind::Added), change(later, ChangeKind::Added)];
        assert_eq!(first(&changes, ChangeKind::Added, "a"), Some(began));
        assert_eq!(first(&changes, ChangeKind::Running, "a"), None);
        assert_eq!(first(&changes, ChangeKind::Added, "b"), None);
    }
}
