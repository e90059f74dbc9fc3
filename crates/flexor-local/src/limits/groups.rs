//! Where the groups of a cluster are: a folder `flexor-HASH` in the group that the cluster was started in, in it a folder
//! for each pod and in that one for each container. So whatever limits the cluster itself holds for its pods too.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::group::{self, Group, Version};

/// Somebody else may remove an empty folder that a group is just being made in.
const TRIES: usize = 3;

/// Where the groups of a cluster are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Of this version.
    pub version: Version,
    /// Their folder.
    pub memory: PathBuf,
    /// Version 1: their folder in the hierarchy that counts processor time, where there is one that can be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PathBuf>,
}

impl Groups {
    /// Those of the cluster of this home, in the group of these folders.
    pub(super) fn of(state_dir: &Path, version: Version, memory: &Path, cpu: Option<&Path>) -> Self {
        let mut hash = DefaultHasher::new();
        state_dir.hash(&mut hash);
        let name = format!("flexor-{:016x}", hash.finish());
        Self { version, memory: memory.join(&name), cpu: cpu.map(|cpu| cpu.join(&name)) }
    }

    /// Makes the group of a container, with so many bytes of memory.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn make(&self, pod: &str, container: &str, limit: u64) -> io::Result<Group> {
        let below = |folder: &PathBuf| folder.join(pod).join(container);
        let group = Group { version: self.version, memory: below(&self.memory), cpu: self.cpu.as_ref().map(below) };
        let mut made = group.make(limit);
        for _ in 1..TRIES {
            match &made {
                Err(error) if error.kind() == ErrorKind::NotFound => made = group.make(limit),
                Ok(()) | Err(_) => break,
            }
        }
        made.map(|()| group)
    }

    /// Removes the groups of a pod, and what it leaves empty. Whoever is still in them is killed.
    ///
    /// # Errors
    ///
    /// Somebody does not end.
    pub fn remove_pod(&self, pod: &str) -> io::Result<()> {
        for folder in self.folders() {
            group::remove(&folder.join(pod))?;
            // Others may be in it.
            _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Removes the groups of all pods but those that `is_known`, and says whether none is left.
    pub(super) fn sweep(&self, is_known: impl Fn(&str) -> bool) -> bool {
        for folder in self.folders() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (name, path) = (entry.file_name(), entry.path());
                let is_pod = path.is_dir() && name != *super::finding::LEAF;
                if is_pod && !name.to_str().is_some_and(&is_known) {
                    // What cannot be removed is tried again by the next one who starts.
                    _ = group::remove(&path);
                }
            }
            // Where the cluster itself was, nobody may be left; one who is keeps it.
            _ = fs::remove_dir(folder.join(super::finding::LEAF));
            _ = fs::remove_dir(folder);
        }
        self.folders().all(|folder| !folder.exists())
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.memory).chain(&self.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_leaves_nothing_and_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, cpu) = (folder.path().join("memory"), folder.path().join("cpuacct"));
        [&memory, &cpu].iter().for_each(|own| fs::create_dir(own).unwrap());
        let groups = Groups::of(Path::new("/home"), Version::V1, &memory, Some(&cpu));
        assert_ne!(groups, Groups::of(Path::new("/other"), Version::V1, &memory, Some(&cpu)));
        for pod in ["one", "two"] {
            let group = groups.make(pod, "main", 1 << 20).unwrap();
            // A real group's files go with it.
            fs::remove_file(group.memory.join("memory.limit_in_bytes")).unwrap();
        }
        groups.remove_pod("one").unwrap();
        groups.remove_pod("one").unwrap();
        assert!(groups.memory.join("two/main").is_dir() && !groups.memory.join("one").exists());
        assert!(!groups.sweep(|pod| pod == "two"));
        assert!(groups.sweep(|_| false));
        assert!(memory.is_dir() && !groups.memory.exists());
    }
}
