//! A cache of objects that jobs own, by the uid of their job.
//!
//! Unlike a reflector's store it answers "all pods of this job" without a walk over all pods of the cluster. It is
//! complete once the first list has ended; while a later list runs, it keeps what it had.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// The owner of an object, enough to find the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct JobRef {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

type ByJob<K> = HashMap<String, BTreeMap<String, Arc<K>>>;

#[derive(Debug)]
pub(crate) struct OwnedObjects<K>(RwLock<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    objects: ByJob<K>,
    /// What the list that runs has brought so far.
    listed: ByJob<K>,
}

impl<K> Default for OwnedObjects<K> {
    fn default() -> Self {
        Self(RwLock::new(Inner { objects: HashMap::new(), listed: HashMap::new() }))
    }
}

impl<K: ResourceExt> OwnedObjects<K> {
    /// The objects of a job, by name.
    pub(crate) fn of_job(&self, uid: &str) -> Vec<Arc<K>> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.objects.get(uid).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Takes in an event of a watch. Returns the jobs whose objects have changed.
    pub(crate) fn apply(&self, event: Event<K>) -> Vec<JobRef> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => {
                inner.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                insert(&mut inner.listed, object);
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut inner.listed);
                let before = std::mem::replace(&mut inner.objects, listed);
                let all = before.values().chain(inner.objects.values()).flat_map(BTreeMap::values);
                let jobs: std::collections::HashSet<JobRef> =
                    all.filter_map(|object| Some(owner(&**object)?.1)).collect();
                jobs.into_iter().collect()
            }
            Event::Apply(object) => insert(&mut inner.objects, object).into_iter().collect(),
            Event::Delete(object) => {
                let Some((uid, job)) = owner(&object) else { return Vec::new() };
                if let Some(objects) = inner.objects.get_mut(&uid) {
                    objects.remove(&object.name_any());
                    if objects.is_empty() {
                        inner.objects.remove(&uid);
                    }
                }
                vec![job]
            }
        }
    }
}

fn insert<K: ResourceExt>(objects: &mut ByJob<K>, object: K) -> Option<JobRef> {
    let (uid, job) = owner(&object)?;
    objects.entry(uid).or_default().insert(object.name_any(), Arc::new(object));
    Some(job)
}

/// The controller of an object: its uid, and where it is.
fn owner<K: ResourceExt>(object: &K) -> Option<(String, JobRef)> {
    let is_controller = |owner: &&OwnerReference| owner.controller == Some(true);
    let owner = object.owner_references().iter().find(is_controller)?;
    let job = JobRef {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: object.namespace()?,
        name: owner.name.clone(),
    };
    Some((owner.uid.clone(), job))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;

    fn service(name: &str, job: &str) -> Service {
        let owner =
            json!({"apiVersion": "g/v1", "kind": "J", "name": job, "uid": format!("uid-{job}"), "controller": true});
        let metadata = json!({"name": name, "namespace": "n", "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn names(cache: &OwnedObjects<Service>, job: &str) -> Vec<String> {
        cache.of_job(&format!("uid-{job}")).iter().map(|service| service.name_any()).collect()
    }

    #[test]
    fn a_list_replaces_what_was_known_and_touches_old_and_new_jobs() {
        let cache = OwnedObjects::default();
        cache.apply(Event::Apply(service("a-0", "a")));
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(service("b-0", "b")));
        assert_eq!(names(&cache, "a"), ["a-0"], "the list has not ended");
        let mut touched: Vec<String> = cache.apply(Event::InitDone).into_iter().map(|job| job.name).collect();
        touched.sort();
        assert_eq!(touched, ["a", "b"]);
        assert_eq!((names(&cache, "a"), names(&cache, "b")), (vec![], vec!["b-0".to_owned()]));
    }

    #[test]
    fn objects_are_found_by_their_job() {
        let cache = OwnedObjects::default();
        for (name, job) in [("a-1", "a"), ("a-0", "a"), ("b-0", "b")] {
            assert_eq!(cache.apply(Event::Apply(service(name, job)))[0].name, job);
        }
        assert_eq!(names(&cache, "a"), ["a-0", "a-1"]);
        cache.apply(Event::Delete(service("a-0", "a")));
        assert_eq!(names(&cache, "a"), ["a-1"]);
        let mut foreign = service("x", "a");
        foreign.metadata.owner_references = None;
        assert!(cache.apply(Event::Apply(foreign)).is_empty());
    }
}
