//! Which pods a job has, by name and life: a pod that is gone stays gone, another of the same name is welcome.
//!
//! A life is a pod's uid. The newest one of a name wins; whoever was it before is fenced. Which lives are over is kept
//! among the job's keys, so that the next master knows it too.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The pods that sidecars and the controller have named.
#[derive(Debug, Default)]
pub struct Pods(Mutex<BTreeMap<String, LatestUid>>);

/// The uid of the latest life of a pod.
type LatestUid = String;

/// What is to be done about a pod that comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is the pod we know, or the first of its name.
    Welcome,
    /// It takes the place of an earlier life, which is over.
    Successor {
        /// The uid of the earlier life.
        of: String,
    },
}

impl Pods {
    /// A pod of this life came, which is not known to be over. One without a uid cannot be told from its successor, and
    /// nothing is known of it: it may be a launcher that no pod is called like.
    pub fn admit(&self, name: &str, uid: &str) -> Admission {
        if uid.is_empty() {
            return Admission::Welcome;
        }
        match self.lock().insert(name.to_owned(), uid.to_owned()) {
            Some(before) if before != uid => Admission::Successor { of: before },
            Some(_) | None => Admission::Welcome,
        }
    }

    /// Whether a pod of this name was named before.
    pub fn is_known(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    /// A pod is gone. The uid of the life that is over, if it was known.
    pub fn forget(&self, name: &str) -> Option<String> {
        self.lock().remove(name)
    }

    /// The pods that were named.
    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LatestUid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key that says that a life is over.
pub(crate) fn over(uid: &str) -> Bytes {
    Bytes::from(format!("flexor-pods/over/{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_life_of_a_name_wins() {
        let pods = Pods::default();
        assert_eq!(pods.admit("worker-1", "first"), Admission::Welcome);
        assert_eq!(pods.admit("worker-1", "first"), Admission::Welcome);
        assert_eq!(pods.admit("worker-1", "second"), Admission::Successor { of: "first".to_owned() });
        assert_eq!(pods.forget("worker-1"), Some("second".to_owned()));
        pods.admit("worker-1", "third");
        assert_eq!(pods.admit("worker-1", ""), Admission::Welcome);
        assert_eq!(pods.forget("worker-1"), Some("third".to_owned()), "one without a uid changes nothing");
    }
}
