//! What a cluster writes down about its limits: by which means, for the parents of its pods, and where there may still be
//! groups of it, for whoever runs it after this.
//!
//! A cluster that was killed is started again from another terminal, so in another control group; pods that outlived it
//! stay in their old ones.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::{Groups, MemoryLimits};
use crate::home::Home;
use crate::whole_file;

/// The contents of `HOME/limits.json`.
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
pub fn begin(home: &Home, limits: &MemoryLimits) -> io::Result<()> {
    let mut before = read(home).map_or_else(Vec::new, Record::all);
    if let Some(groups) = limits.groups() {
        before.retain(|known| known != groups);
        groups.sweep(|pod| home.pod(pod).path().exists());
    }
    before.retain(|groups| !groups.sweep(|pod| home.pod(pod).path().exists()));
    whole_file::write(&home.limits(), &Record { now: limits.clone(), before })
}

/// By which means memory is limited in a cluster.
pub fn of_home(home: &Home) -> MemoryLimits {
    let unknown = || MemoryLimits::Watched("the cluster has written down nothing else".to_owned());
    read(home).map_or_else(unknown, |record| record.now)
}

/// Removes the groups of a pod.
pub fn forget_pod(home: &Home, uid: &str) {
    for groups in read(home).into_iter().flat_map(Record::all) {
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

fn read(home: &Home) -> Option<Record> {
    serde_json::from_slice(&fs::read(home.limits()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Version;
    use super::*;

    #[test]
    fn groups_of_pods_that_are_gone_are_removed_wherever_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("home"));
        drop(home.take().unwrap());
        let groups = |place: &str| {
            let memory = folder.path().join(place);
            fs::create_dir_all(&memory).unwrap();
            Groups::of(home.path(), Version::V1, &memory, None)
        };
        fs::create_dir(home.pod("lives").path()).unwrap();
        assert!(matches!(of_home(&home), MemoryLimits::Watched(_)));
        for (place, pod) in [("one", "lives"), ("one", "gone"), ("two", "gone")] {
            begin(&home, &MemoryLimits::Groups(groups(place))).unwrap();
            let group = groups(place).make(pod, "main", 1).unwrap();
            fs::remove_file(group.memory.join("memory.limit_in_bytes")).unwrap();
        }
        let watched = MemoryLimits::Watched("of the test".to_owned());
        begin(&home, &watched).unwrap();
        assert_eq!(of_home(&home), watched);
        assert!(groups("one").memory.join("lives/main").is_dir(), "somebody has it");
        assert!(!groups("one").memory.join("gone").exists() && !groups("two").memory.exists());
        forget_pod(&home, "lives");
        assert!(!groups("one").memory.exists());
    }
}
