//! The watches that fill the caches and say which job to reconcile.
//!
//! One watch for the pods of all kinds, one for their services, one for each kind of jobs or plans. Pods and services
//! are selected by Flexor's label, so that those of others cost nothing.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::render::JOB_UID_LABEL;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::executor::Shared;
use crate::kinds::ServedKind;
use crate::owned_objects::{JobRef, OwnedObjects};
use crate::slim_pod::SlimPod;
use crate::watch_backoff::WatchBackoff;

/// Where the jobs of a kind are queued for reconciliation.
pub(crate) type Queue = mpsc::UnboundedSender<ObjectRef<DynamicObject>>;

/// What runs as long as the operator does. A task that ends, which it says by its name, ends the operator; dropping the
/// set ends them all.
pub(crate) type Tasks = JoinSet<&'static str>;

/// A watch is opened again after so many seconds. A connection whose other end is gone without a word shows by then.
const WATCH_SECONDS: u32 = 60;
/// The API server answers within this, and a watch brings something or ends.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 15);

/// How everything is watched.
pub(crate) fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// The queues of all kinds of jobs.
#[derive(Default, Clone)]
pub(crate) struct Queues(HashMap<(String, String), (ServedKind, Queue)>);

impl Queues {
    pub(crate) fn add(&mut self, kind: &ServedKind, queue: Queue) {
        let key = (kind.resource.api_version.clone(), kind.resource.kind.clone());
        self.0.insert(key, (kind.clone(), queue));
    }

    /// Has a job reconciled. Owners that are no jobs of ours are ignored.
    pub(crate) fn push(&self, job: &JobRef) {
        if let Some((kind, queue)) = self.0.get(&(job.api_version.clone(), job.kind.clone())) {
            let object = ObjectRef::new_with(&job.name, kind.resource.clone()).within(&job.namespace);
            // The receiver is gone only when the operator ends.
            let _ = queue.send(object);
        }
    }
}

/// Keeps the pods of all jobs. The receiver hears when the first list is complete.
pub(crate) fn watch_pods(
    shared: Arc<Shared>,
    queues: Queues,
    tasks: &mut Tasks,
    on_gone: impl Fn(Gone<'_>) + Send + Sync + 'static,
) -> oneshot::Receiver<()> {
    let stream = watch(Api::<SlimPod>::all(shared.client.clone()), of_flexor()).modify(SlimPod::trim);
    let (is_complete, complete) = oneshot::channel();
    tasks.spawn(async move {
        let on_event = |event: &Event<SlimPod>| match event {
            Event::Delete(pod) => on_gone(Gone::Pod(pod)),
            Event::InitDone => on_gone(Gone::Any),
            Event::Apply(_) | Event::Init | Event::InitApply(_) => {}
        };
        keep("pods", stream, &shared.pods, &queues, is_complete, on_event).await;
        "the watch of pods"
    });
    complete
}

/// A pod that a watch does not show any more.
pub(crate) enum Gone<'a> {
    Pod(&'a SlimPod),
    /// A list was read again: pods may have come and gone unseen.
    Any,
}

/// Keeps the services of all jobs. The receiver hears when the first list is complete.
pub(crate) fn watch_services(
    shared: Arc<Shared>,
    queues: Queues,
    tasks: &mut Tasks,
    on_gone: impl Fn(Option<&PartialObjectMeta<Service>>) + Send + Sync + 'static,
) -> oneshot::Receiver<()> {
    let stream = watch(Api::<PartialObjectMeta<Service>>::all(shared.client.clone()), of_flexor());
    let (is_complete, complete) = oneshot::channel();
    tasks.spawn(async move {
        let on_event = |event: &Event<PartialObjectMeta<Service>>| match event {
            Event::Delete(service) => on_gone(Some(service)),
            Event::InitDone => on_gone(None),
            Event::Apply(_) | Event::Init | Event::InitApply(_) => {}
        };
        keep("services", stream, &shared.services, &queues, is_complete, on_event).await;
        "the watch of services"
    });
    complete
}

fn of_flexor() -> watcher::Config {
    config().labels(JOB_UID_LABEL)
}

async fn keep<K: ResourceExt + Debug + Send + 'static>(
    what: &'static str,
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    objects: &OwnedObjects<K>,
    queues: &Queues,
    is_complete: oneshot::Sender<()>,
    on_event: impl Fn(&Event<K>),
) {
    let mut is_complete = Some(is_complete);
    let mut stream = std::pin::pin!(stream.backoff(WatchBackoff::default()));
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                on_event(&event);
                let is_done = matches!(event, Event::InitDone);
                for job in objects.apply(event) {
                    queues.push(&job);
                }
                if let Some(is_complete) = is_complete.take_if(|_| is_done) {
                    let _ = is_complete.send(());
                }
            }
            Err(error) => tracing::warn!(what, %error, "a watch broke; it is opened again"),
        }
    }
}

/// Keeps the jobs or plans of a kind, and calls `on_change` with each that comes or changes, `on_gone` with each that
/// goes, and `on_list` with the uids of all whenever they were listed.
pub(crate) fn watch_kind(
    client: Client,
    kind: &ServedKind,
    tasks: &mut Tasks,
    on_change: impl Fn(&DynamicObject) + Send + 'static,
    on_gone: impl Fn(&DynamicObject) + Send + 'static,
    on_list: impl Fn(&HashSet<String>) + Send + 'static,
) -> Store<DynamicObject> {
    let writer = Writer::new(kind.resource.clone());
    let store = writer.as_reader();
    let api = Api::<DynamicObject>::all_with(client, &kind.resource);
    let trim = |object: &mut DynamicObject| object.metadata.managed_fields = None;
    let stream = watch(api, config()).modify(trim).reflect(writer);
    let (what, listed) = (kind.resource.plural.clone(), store.clone());
    tasks.spawn(async move {
        let mut stream = std::pin::pin!(stream.backoff(WatchBackoff::default()));
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Apply(object)) => on_change(&object),
                Ok(Event::Delete(object)) => on_gone(&object),
                Ok(Event::InitDone) => {
                    let all = listed.state();
                    on_list(&all.iter().filter_map(|object| object.uid()).collect());
                    all.iter().for_each(|object| on_change(object));
                }
                Ok(Event::Init | Event::InitApply(_)) => {}
                Err(error) => tracing::warn!(what, %error, "a watch broke; it is opened again"),
            }
        }
        "the watch of jobs or plans"
    });
    store
}
