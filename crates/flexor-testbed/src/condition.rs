//! Waits for a condition in the cluster: on a watch and with a deadline, never by sleeping.
//!
//! After the deadline the error shows the last observed objects. A watch that breaks, for instance because a test
//! killed the API server, is resumed until the deadline.

use std::{fmt::Debug, time::Duration};

use anyhow::bail;
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde::{Serialize, de::DeserializeOwned};

/// How much of an object an error shows.
const SHOWN_CHARS: usize = 1500;

/// Waits until `condition` holds for the object called `name` (`None`: there is no such object) and gives the object
/// as it then was. `what` completes the sentence "waited for …".
pub async fn await_condition<K>(
    deadline: Duration,
    api: Api<K>,
    name: &str,
    what: &str,
    mut condition: impl FnMut(Option<&K>) -> bool,
) -> anyhow::Result<Option<K>>
where
    K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let what = format!("{name}: {what}");
    let mut found = await_watched(deadline, api, config, &what, |objects: &[K]| condition(objects.first())).await?;
    Ok(found.pop())
}

/// Waits until `condition` holds for all objects that match the label selector (empty: all that the API gives), and
/// gives them as they then were, sorted by namespace and name.
pub async fn await_list<K>(
    deadline: Duration,
    api: Api<K>,
    selector: &str,
    what: &str,
    condition: impl FnMut(&[K]) -> bool,
) -> anyhow::Result<Vec<K>>
where
    K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
{
    let config = match selector {
        "" => watcher::Config::default(),
        selector => watcher::Config::default().labels(selector),
    };
    await_watched(deadline, api, config, what, condition).await
}

async fn await_watched<K>(
    deadline: Duration,
    api: Api<K>,
    config: watcher::Config,
    what: &str,
    mut condition: impl FnMut(&[K]) -> bool,
) -> anyhow::Result<Vec<K>>
where
    K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
{
    let mut seen = WatchedObjects::default();
    let watching = async {
        let events = watcher(api, config).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            seen.take(event);
            if seen.complete && condition(&seen.objects) {
                return true;
            }
        }
        false
    };
    match tokio::time::timeout(deadline, watching).await {
        Ok(true) => Ok(seen.objects),
        Ok(false) | Err(_) => bail!("waited {deadline:?} for {what}; {}", seen.describe()),
    }
}

/// The objects that the watch has delivered so far.
struct WatchedObjects<K> {
    /// Sorted by namespace and name.
    objects: Vec<K>,
    /// False while a list is being read: absent objects may still follow.
    complete: bool,
    last_error: Option<String>,
}

impl<K> Default for WatchedObjects<K> {
    fn default() -> Self {
        Self { objects: Vec::new(), complete: false, last_error: None }
    }
}

impl<K: Resource + Serialize> WatchedObjects<K> {
    fn take(&mut self, event: Result<Event<K>, watcher::Error>) {
        match event {
            Ok(Event::Init) => {
                self.objects.clear();
                self.complete = false;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => match self.position(&object) {
                Ok(at) => self.objects[at] = object,
                Err(at) => self.objects.insert(at, object),
            },
            Ok(Event::InitDone) => self.complete = true,
            Ok(Event::Delete(object)) => {
                if let Ok(at) = self.position(&object) {
                    self.objects.remove(at);
                }
            }
            Err(error) => self.last_error = Some(error.to_string()),
        }
    }

    /// The index of the object, or the index for its insertion.
    fn position(&self, object: &K) -> Result<usize, usize> {
        fn key<K: Resource>(object: &K) -> (Option<&str>, Option<&str>) {
            (object.meta().namespace.as_deref(), object.meta().name.as_deref())
        }
        self.objects.binary_search_by(|other| key(other).cmp(&key(object)))
    }

    fn describe(&self) -> String {
        let objects: Vec<String> = self.objects.iter().map(describe).collect();
        let mut text = match objects.as_slice() {
            [] => "last saw no such object".to_owned(),
            objects => format!("last saw {} object(s):\n{}", objects.len(), objects.join("\n")),
        };
        if let Some(end) = text.char_indices().nth(SHOWN_CHARS).map(|(at, _)| at) {
            text.truncate(end);
            text.push('…');
        }
        match &self.last_error {
            Some(error) => format!("{text}\nthe watch's last error: {error}"),
            None => text,
        }
    }
}

/// An object in one line: its name and status, or the full object where there is no status.
fn describe<K: Resource + Serialize>(object: &K) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    let shown = match value.get_mut("status") {
        Some(status) => status.take(),
        None => value,
    };
    format!("{} {shown}", object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(name: &str, phase: &str) -> Pod {
        serde_json::from_value(serde_json::json!({ "metadata": { "name": name }, "status": { "phase": phase } }))
            .unwrap()
    }

    #[test]
    fn a_list_counts_only_when_it_is_complete() {
        let mut seen = WatchedObjects::default();
        seen.take(Ok(Event::Init));
        seen.take(Ok(Event::InitApply(pod("a", "Running"))));
        assert!(!seen.complete);
        seen.take(Ok(Event::InitDone));
        assert!(seen.complete);
        seen.take(Ok(Event::Delete(pod("a", "Running"))));
        assert!(seen.objects.is_empty());
    }

    #[test]
    fn the_error_shows_the_last_observed_objects() {
        let mut seen = WatchedObjects::default();
        assert_eq!(seen.describe(), "last saw no such object");
        seen.take(Ok(Event::Apply(pod("worker-0", "Pending"))));
        assert_eq!(seen.describe(), "last saw 1 object(s):\nworker-0 {\"phase\":\"Pending\"}");
        seen.take(Ok(Event::Apply(pod("worker-1", &"x".repeat(5000)))));
        assert!(seen.describe().chars().count() < SHOWN_CHARS + 10);
    }
}
