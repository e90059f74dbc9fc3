//! ConfigMaps, Secrets and PriorityClasses: taken in, taken away, and looked up by those who refer to them.

use flexor_model::DnsLabel;

use super::pod::PendingReason;
use super::{ApiError, ApplyOutcome, Cluster, State, now, uid};
use crate::objects::{Object, ObjectChange, ObjectError, ObjectKey, ObjectKind, StoredObject};
use crate::pods::interpreter::InterpretError;

impl Cluster {
    /// Takes an object in, or what has changed of it.
    ///
    /// # Errors
    ///
    /// What is there does not let it, or it cannot be written down.
    pub fn apply_object(&self, object: Object) -> Result<ApplyOutcome, ApiError> {
        let mut state = self.lock();
        let taken = match state.objects.admit(&object)? {
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
        // Some pod may have waited for it.
        self.notify();
        Ok(taken)
    }

    /// Deletes an object. What pods have been given of it they keep. Its unique id.
    ///
    /// # Errors
    ///
    /// It is not there, it is always there, or the disk refuses.
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

    /// Forgets all objects.
    pub(super) fn forget_objects(&self) {
        let mut state = self.lock();
        for kept in std::mem::take(&mut state.objects).iter() {
            if let Err(error) = kept.erase(self.state_dir()) {
                tracing::warn!(object = %kept.object.key, %error, "cannot be removed");
            }
        }
    }
}

impl State {
    fn namespace_of(&self, kind: ObjectKind, name: &str) -> Option<DnsLabel> {
        let mut keys = self.objects.iter().map(|kept| &kept.object.key);
        keys.find(|key| key.kind == kind && key.name.as_str() == name)?.namespace.clone()
    }

    /// A pod refers to something that is not there; it is started once that has come. People are told once.
    pub(super) fn await_objects(&mut self, uid: &str, why: &InterpretError) {
        self.hold(
            uid,
            PendingReason::MissingReference(format!(
                "{why}; the pod starts as soon as `flexor apply -f FILE` brings it"
            )),
        );
    }
}
