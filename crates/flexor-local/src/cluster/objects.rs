//! Requests about ConfigMaps, Secrets and PriorityClasses.

use flexor_model::DnsLabel;

use super::pod::PendingReason;
use super::{ApiError, ApplyOutcome, Cluster, State, now, uid};
use crate::objects::{Object, ObjectChange, ObjectError, ObjectKey, ObjectKind, StoredObject};
use crate::pods::interpreter::InterpretError;

impl Cluster {
    /// Creates or changes an object.
    ///
    /// # Errors
    ///
    /// The stored object does not allow the change, or it cannot be saved.
    pub fn apply_object(&self, object: Object) -> Result<ApplyOutcome, ApiError> {
        let mut state = self.lock();
        let outcome = match state.objects.admit(&object)? {
            ObjectChange::Same => return Ok(ApplyOutcome::Unchanged),
            ObjectChange::New => ApplyOutcome::Created,
            ObjectChange::Other => ApplyOutcome::Changed,
        };
        let known = state.objects.get(&object.key).map(|known| (known.uid.clone(), known.created_at));
        let (uid, created_at) = known.unwrap_or_else(|| (uid(), now()));
        let kept = StoredObject { object, uid, created_at };
        kept.save(self.state_dir())?;
        state.objects.insert(kept);
        drop(state);
        self.publish();
        // A pod may have waited for it.
        self.notify();
        Ok(outcome)
    }

    /// Deletes an object. Pods keep what they got from it. Returns its uid.
    ///
    /// # Errors
    ///
    /// The object does not exist, is built in, or cannot be removed from the disk.
    pub fn delete_object(&self, kind: ObjectKind, namespace: &DnsLabel, name: &str) -> Result<String, ApiError> {
        let mut state = self.lock();
        let elsewhere = state.namespace_of(kind, name);
        let missing = || super::requests::missing(kind.as_str(), name, namespace, elsewhere);
        let Ok(parsed) = name.parse() else { return Err(missing()) };
        let key = ObjectKey { kind, namespace: kind.is_namespaced().then(|| namespace.clone()), name: parsed };
        if kind == ObjectKind::PriorityClass && crate::objects::is_built_in(name) {
            return Err(ObjectError::BuiltIn(key).into());
        }
        let kept = state.objects.get(&key).ok_or_else(missing)?;
        kept.erase(self.state_dir())?;
        let uid = kept.uid.clone();
        state.objects.remove(&key);
        drop(state);
        self.publish();
        Ok(uid)
    }

    /// Removes all objects.
    pub(super) fn remove_objects(&self) {
        let mut state = self.lock();
        for kept in std::mem::take(&mut state.objects).iter() {
            if let Err(error) = kept.erase(self.state_dir()) {
                tracing::warn!(object = %kept.object.key, %error, "an object cannot be removed");
            }
        }
    }
}

impl State {
    fn namespace_of(&self, kind: ObjectKind, name: &str) -> Option<DnsLabel> {
        let mut keys = self.objects.iter().map(|kept| &kept.object.key);
        keys.find(|key| key.kind == kind && key.name.as_str() == name)?.namespace.clone()
    }

    /// Keeps a pod pending that refers to an object which does not exist. It is started once the object is applied.
    pub(super) fn await_reference(&mut self, uid: &str, why: &InterpretError) {
        self.set_pending(
            uid,
            PendingReason::MissingReference(format!(
                "{why}; the pod starts as soon as `flexor apply -f FILE` brings it"
            )),
        );
    }
}
