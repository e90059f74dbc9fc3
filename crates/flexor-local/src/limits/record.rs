//! What a cluster writes down about its limits: by which means, for the parents of its pods, and where there may still be
//! groups of it, for whoever runs it after this.
//!
//! A cluster that was killed is started again from another terminal, so in another control group; pods that outlived it
//! stay in their old ones.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::{Groups, MemoryLimits};
use crate::state_dir::StateDir;
use crate::whole_file;

/// The contents of `STATE/limits.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    now: MemoryLimits,
    /// Where there were groups before, and may be some still.
    #[serde(default)]
    before: Vec<Groups>,
}

/// Writes down by which means memory is limited from here on, and removes the groups of pods that are gone.
///
/// # Errors
///
/// The disk refuses.
pub fn begin(state_dir: &StateDir, limits: &MemoryLimits) -> io::Result<()> {
    let mut before = read(state_dir).map_or_else(Vec::new, Record::all);
    if let Some(groups) = limits.groups() {
        before.retain(|known| known != groups);
        groups.sweep(|pod| state_dir.pod(pod).path().exists());
    }
    before.retain(|groups| !groups.sweep(|pod| state_dir.pod(pod).path().exists()));
    whole_file::write(&state_dir.limits(), &Record { now: limits.clone(), before })
}

/// By which means memory is limited in a cluster.
pub fn of_state_dir(state_dir: &StateDir) -> MemoryLimits {
    let unknown = || MemoryLimits::Watched("the cluster has written down nothing else".to_owned());
    read(state_dir).map_or_else(unknown, |record| record.now)
}

/// Removes the groups of a pod.
pub fn forget_pod(state_dir: &StateDir, uid: &str) {
    for groups in read(state_dir).into_iter().flat_map(Record::all) {
        if let Err(error) = groups.remove_pod(uid) {
            tracing::warn!(pod = uid, %error, "its control group cannot be removed");
        }
    }
}

impl Record {
    fn all(self) -> Vec<Groups> {
        let mut all = self.before;
        all.extend(self.now.groups().cloned());
        all
    }
}

fn read(state_dir: &StateDir) -> Option<Record> {
    serde_json::from_slice(&fs::read(state_dir.limits()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;

    #[test]
    fn groups_of_pods_that_are_gone_are_removed_wherever_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(folder.path().join("home"));
        drop(state_dir.take().unwrap());
        let groups = |place: &str| {
            let memory = folder.path().join(place);
            fs::create_dir_all(&memory).unwrap();
            Groups::of(state_dir.path(), Version::V1, &memory, None)
        };
        fs::create_dir(state_dir.pod("lives").path()).unwrap();
        assert!(matches!(of_state_dir(&state_dir), MemoryLimits::Watched(_)));
        for (place, pod) in [("one", "lives"), ("one", "gone"), ("two", "gone")] {
            begin(&state_dir, &MemoryLimits::Groups(groups(place))).unwrap();
            let group = groups(place).make(pod, "main", 1).unwrap();
            fs::remove_file(group.memory.join("memory.limit_in_bytes")).unwrap();
        }
        let watched = MemoryLimits::Watched("of the test".to_owned());
        begin(&state_dir, &watched).unwrap();
        assert_eq!(of_state_dir(&state_dir), watched);
        assert!(groups("one").memory.join("lives/main").is_dir(), "somebody has it");
        assert!(!groups("one").memory.join("gone").exists() && !groups("two").memory.exists());
        forget_pod(&state_dir, "lives");
        assert!(!groups("one").memory.exists());
    }
}
