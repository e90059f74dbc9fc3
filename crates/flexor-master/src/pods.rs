//! The pods of a job by name and uid. A pod that has ended is never admitted again; another pod of its name is.
//!
//! The newest uid of a name wins and the earlier pod is fenced. The uids of ended pods are kept among the job's keys, so
//! that the next master knows them too.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The pods that sidecars and the controller have reported, with the latest uid of each name.
#[derive(Debug, Default)]
pub struct Pods(Mutex<BTreeMap<String, String>>);

/// The result of admitting a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The pod is known, or the first of its name.
    Admitted,
    /// The pod replaces an earlier one of its name, which has this uid and has ended.
    Replaces { uid: String },
}

impl Pods {
    /// Admits a pod that has not ended. A pod without a uid cannot be distinguished from its replacement and is not
    /// remembered: it may be a launcher outside of any pod.
    pub fn admit(&self, name: &str, uid: &str) -> Admission {
        if uid.is_empty() {
            return Admission::Admitted;
        }
        match self.lock().insert(name.to_owned(), uid.to_owned()) {
            Some(before) if before != uid => Admission::Replaces { uid: before },
            Some(_) | None => Admission::Admitted,
        }
    }

    /// Whether a pod of this name was admitted before.
    pub fn is_known(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    /// Forgets a pod that is gone. Returns its uid, if it was known.
    pub fn forget(&self, name: &str) -> Option<String> {
        self.lock().remove(name)
    }

    /// The names of all pods.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key that marks the pod of this uid as ended.
pub(crate) fn ended_key(uid: &str) -> Bytes {
    Bytes::from(format!("flexor-pods/ended/{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_pod_of_a_name_wins() {
        let pods = Pods::default();
        assert_eq!(pods.admit("worker-1", "first"), Admission::Admitted);
        assert_eq!(pods.admit("worker-1", "first"), Admission::Admitted);
        assert_eq!(pods.admit("worker-1", "second"), Admission::Replaces { uid: "first".to_owned() });
        assert_eq!(pods.forget("worker-1"), Some("second".to_owned()));
        pods.admit("worker-1", "third");
        assert_eq!(pods.admit("worker-1", ""), Admission::Admitted);
        assert_eq!(pods.forget("worker-1"), Some("third".to_owned()), "a pod without a uid changes nothing");
    }
}
