//! A cache of objects that jobs own, by the uid of their job.
//!
//! Unlike a reflector's store it answers "all pods of this job" without a walk over all pods of the cluster. It is
//! complete once the first list has ended; while a later list runs, it keeps what it had.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use flexor_engine::render::JOB_UID_LABEL;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::runtime::watcher::Event;

use crate::recorder::Subject;

/// The owner of an object, enough to find the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct JobRef {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl From<&Subject> for JobRef {
    fn from(subject: &Subject) -> Self {
        let Subject { api_version, kind, namespace, name, uid: _ } = subject.clone();
        Self { api_version, kind, namespace, name }
    }
}

/// By the job's namespace and uid: an object of another namespace is never one of the job, whatever it says.
type ByJob<K> = HashMap<(String, String), BTreeMap<String, Arc<K>>>;

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
    pub(crate) fn of_job(&self, namespace: &str, uid: &str) -> Vec<Arc<K>> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner
            .objects
            .get(&(namespace.to_owned(), uid.to_owned()))
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// The jobs that own an object like that. Walks over all objects.
    pub(crate) fn owners_where(&self, like: impl Fn(&K) -> bool) -> Vec<JobRef> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_each = inner.objects.values().filter_map(|objects| objects.values().find(|object| like(object)));
        of_each.filter_map(|object| Some(owner(&**object)?.1)).collect()
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
            Event::Apply(object) => {
                // Somebody may have taken it from the job that it was made for.
                let made_for = object.labels().get(JOB_UID_LABEL).cloned().unwrap_or_default();
                let is_taken = owner(&object).is_none_or(|(uid, _)| uid != made_for);
                let made_for = (object.namespace().unwrap_or_default(), made_for);
                let lost = is_taken.then(|| remove(&mut inner.objects, &made_for, &object.name_any())).flatten();
                lost.into_iter().chain(insert(&mut inner.objects, object)).collect()
            }
            Event::Delete(object) => {
                let Some((uid, job)) = owner(&object) else { return Vec::new() };
                remove(&mut inner.objects, &(job.namespace.clone(), uid), &object.name_any());
                vec![job]
            }
        }
    }
}

/// Forgets an object of a job. Returns the job if it had one of that name.
fn remove<K: ResourceExt>(objects: &mut ByJob<K>, job: &(String, String), name: &str) -> Option<JobRef> {
    let of_job = objects.get_mut(job)?;
    let removed = of_job.remove(name);
    if of_job.is_empty() {
        objects.remove(job);
    }
    Some(owner(&*removed?)?.1)
}

fn insert<K: ResourceExt>(objects: &mut ByJob<K>, object: K) -> Option<JobRef> {
    let (uid, job) = owner(&object)?;
    objects.entry((job.namespace.clone(), uid)).or_default().insert(object.name_any(), Arc::new(object));
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
        cache.of_job("n", &format!("uid-{job}")).iter().map(|service| service.name_any()).collect()
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
    fn an_object_whose_owner_was_removed_is_nobodys() {
        let cache = OwnedObjects::default();
        let mut stray = service("a-0", "a");
        stray.labels_mut().insert(JOB_UID_LABEL.to_owned(), "uid-a".to_owned());
        cache.apply(Event::Apply(stray.clone()));
        assert_eq!(names(&cache, "a"), ["a-0"]);
        stray.metadata.owner_references = None;
        let touched: Vec<String> = cache.apply(Event::Apply(stray)).into_iter().map(|job| job.name).collect();
        assert_eq!((touched, names(&cache, "a")), (vec!["a".to_owned()], vec![]));
    }

    #[test]
    fn an_object_of_another_namespace_takes_nothing_from_a_job() {
        let cache = OwnedObjects::default();
        cache.apply(Event::Apply(service("a-0", "a")));
        let mut forged = service("a-0", "a");
        forged.metadata.namespace = Some("elsewhere".to_owned());
        cache.apply(Event::Apply(forged.clone()));
        forged.labels_mut().insert(JOB_UID_LABEL.to_owned(), "uid-a".to_owned());
        forged.metadata.owner_references = None;
        cache.apply(Event::Apply(forged));
        let found = cache.of_job("n", "uid-a");
        assert_eq!(found.iter().map(|service| service.namespace()).collect::<Vec<_>>(), [Some("n".to_owned())]);
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
