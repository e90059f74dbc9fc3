//! `limits.json` of the state directory: the cluster's means for its pods' supervisors, and where cgroups may be left.
//!
//! A killed cluster may be started again from another terminal, and so in another cgroup. Pods that outlived it stay in
//! their old cgroups.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::{CgroupTree, MemoryLimits};
use crate::atomic_file;
use crate::state_dir::StateDir;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LimitsRecord {
    now: MemoryLimits,
    /// Earlier roots that may still have cgroups.
    #[serde(default)]
    before: Vec<CgroupTree>,
}

/// Records the cluster's means, and removes the cgroups of pods that are gone.
///
/// # Errors
///
/// The disk refuses.
pub fn begin(state_dir: &StateDir, limits: &MemoryLimits) -> io::Result<()> {
    let mut before = read(state_dir).map_or_else(Vec::new, LimitsRecord::all);
    if let Some(groups) = limits.groups() {
        before.retain(|known| known != groups);
        groups.sweep(|pod| state_dir.pod(pod).path().exists());
    }
    before.retain(|groups| !groups.sweep(|pod| state_dir.pod(pod).path().exists()));
    atomic_file::write(&state_dir.limits(), &LimitsRecord { now: limits.clone(), before })
}

/// The means of the cluster with this state directory.
pub fn of_state_dir(state_dir: &StateDir) -> MemoryLimits {
    let unknown = || MemoryLimits::Watched("the cluster has recorded nothing else".to_owned());
    read(state_dir).map_or_else(unknown, |record| record.now)
}

/// Removes the cgroups of a pod.
pub fn forget_pod(state_dir: &StateDir, uid: &str) {
    for groups in read(state_dir).into_iter().flat_map(LimitsRecord::all) {
        if let Err(error) = groups.remove_pod(uid) {
            tracing::warn!(pod = uid, %error, "its control group cannot be removed");
        }
    }
}

impl LimitsRecord {
    fn all(self) -> Vec<CgroupTree> {
        let mut all = self.before;
        all.extend(self.now.groups().cloned());
        all
    }
}

fn read(state_dir: &StateDir) -> Option<LimitsRecord> {
    serde_json::from_slice(&fs::read(state_dir.limits()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::CgroupVersion;
    use super::*;

    #[test]
    fn cgroups_of_removed_pods_are_removed_wherever_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(folder.path().join("home"));
        drop(state_dir.lock().unwrap());
        let groups = |place: &str| {
            let memory = folder.path().join(place);
            fs::create_dir_all(&memory).unwrap();
            CgroupTree::of(state_dir.path(), CgroupVersion::V1, &memory, None)
        };
        fs::create_dir(state_dir.pod("lives").path()).unwrap();
        assert!(matches!(of_state_dir(&state_dir), MemoryLimits::Watched(_)));
        for (place, pod) in [("one", "lives"), ("one", "gone"), ("two", "gone")] {
            begin(&state_dir, &MemoryLimits::Cgroups(groups(place))).unwrap();
            let group = groups(place).make(pod, "main", 1).unwrap();
            fs::remove_file(group.memory.join("memory.limit_in_bytes")).unwrap();
        }
        let watched = MemoryLimits::Watched("of the test".to_owned());
        begin(&state_dir, &watched).unwrap();
        assert_eq!(of_state_dir(&state_dir), watched);
        assert!(groups("one").memory.join("lives/main").is_dir(), "its pod exists");
        assert!(!groups("one").memory.join("gone").exists() && !groups("two").memory.exists());
        forget_pod(&state_dir, "lives");
        assert!(!groups("one").memory.exists());
    }
}
