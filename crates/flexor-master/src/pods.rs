//! Which pods a job has, by name and life: a pod that is gone stays gone, another of the same name is welcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pods whose sidecars have come.
#[derive(Debug, Default)]
pub struct Pods(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The uid of the latest life of each pod.
    lives: BTreeMap<String, String>,
    gone: BTreeSet<String>,
}

impl Pods {
    /// A sidecar came. Whether its pod is not known to be gone. A pod without a uid cannot be told from its successor.
    pub fn admit(&self, name: &str, uid: &str) -> bool {
        let mut known = self.lock();
        if !uid.is_empty() && known.gone.contains(uid) {
            return false;
        }
        known.lives.insert(name.to_owned(), uid.to_owned());
        true
    }

    /// A pod is gone: this life of it does not come back.
    pub fn gone(&self, name: &str) {
        let mut known = self.lock();
        if let Some(uid) = known.lives.remove(name).filter(|uid| !uid.is_empty()) {
            known.gone.insert(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_gone_stays_gone_and_its_successor_is_welcome() {
        let pods = Pods::default();
        assert!(pods.admit("worker-1", "first"));
        pods.gone("worker-1");
        assert!(!pods.admit("worker-1", "first"));
        assert!(pods.admit("worker-1", "second"));
        pods.gone("nobody");
        assert!(pods.admit("worker-2", ""));
        pods.gone("worker-2");
        assert!(pods.admit("worker-2", ""), "without a uid it cannot be told from its successor");
    }
}
