//! All pods of the cluster, as a watch tells of them.

mod known;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::{TryStreamExt as _, pin_mut};
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use kube::core::Request;
use tokio::task::JoinHandle;

pub(super) use self::known::Role;
use self::known::{KnownPods, WatchedPod};
use super::requests;

const PATH: &str = "/api/v1/pods";

/// A watch from its start; dropping it ends it.
pub(super) struct Pods {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

struct Seen {
    pods: KnownPods,
    failure: Option<String>,
}

impl Pods {
    /// Watches the pods of all namespaces. Those that exist already are seen when they change.
    pub(super) async fn watch(client: &Client, jobs: Vec<String>) -> Result<Self> {
        let list = requests::get(client, &format!("{PATH}?limit=1")).await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list without a version")?.to_owned();
        let seen = Arc::new(Mutex::new(Seen { pods: KnownPods::of_jobs(jobs), failure: None }));
        let (client, kept) = (client.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            if let Err(error) = follow(client, version, &kept).await {
                lock(&kept).failure = Some(format!("{error:#}"));
            }
        });
        Ok(Self { seen, task })
    }

    /// An error if the watch has broken.
    pub(super) fn check_alive(&self) -> Result<()> {
        match &lock(&self.seen).failure {
            Some(failure) => bail!("the watch on pods broke: {failure}"),
            None => Ok(()),
        }
    }

    /// CPU requests of running pods, in thousandths of a core.
    pub(super) fn running_cpu(&self) -> u64 {
        self.read(KnownPods::running_cpu)
    }

    /// Running pods of a role that nobody has deleted.
    pub(super) fn running(&self, job: usize, role: Role) -> u32 {
        self.read(|pods| pods.running(job, role))
    }

    pub(super) fn running_online(&self) -> u32 {
        self.read(KnownPods::running_online)
    }

    /// Running pods of neither a job nor the online service.
    pub(super) fn running_others(&self) -> usize {
        self.read(KnownPods::running_others)
    }

    pub(super) fn unbound_trainers(&self) -> u32 {
        self.read(KnownPods::unbound_trainers)
    }

    /// When the first trainer of a job ran.
    pub(super) fn started(&self, job: usize) -> Option<Instant> {
        self.read(|pods| pods.started(job))
    }

    /// Trainers with a node that were deleted while their job had work to do.
    pub(super) fn trainers_ended(&self) -> u32 {
        self.read(KnownPods::trainers_ended)
    }

    /// From here on the ends of a job's trainers do not count. Returns the names of the running ones.
    pub(super) fn finish(&self, job: usize) -> Vec<String> {
        lock(&self.seen).pods.finish(job)
    }

    /// How many pods there are of which kind, for an error.
    pub(super) fn in_words(&self) -> String {
        self.read(KnownPods::in_words)
    }

    fn read<T>(&self, look: impl FnOnce(&KnownPods) -> T) -> T {
        look(&lock(&self.seen).pods)
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, mut version: String, seen: &Mutex<Seen>) -> Result<()> {
    loop {
        let request = Request::new(PATH).watch(&WatchParams::default(), &version)?;
        let events = client.request_events::<WatchedPod>(request).await?;
        pin_mut!(events);
        // The API server ends every watch after some minutes.
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    version.clone_from(&pod.metadata.resource_version);
                    lock(seen).pods.see(&pod, Instant::now());
                }
                WatchEvent::Deleted(pod) => {
                    version.clone_from(&pod.metadata.resource_version);
                    lock(seen).pods.forget(&pod);
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => bail!("{status:?}"),
            }
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
