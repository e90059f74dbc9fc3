//! The cgroups of a cluster: `flexor-HASH/POD/CONTAINER` below the cgroup that the cluster was started in.
//!
//! Limits of the cluster's own cgroup so hold for its pods too.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cgroup::{self, Cgroup, CgroupVersion};

/// Another process may remove an empty folder in which a cgroup is just being created.
const TRIES: usize = 3;

/// The root of a cluster's cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupTree {
    pub version: CgroupVersion,
    /// Its folder; in version 1 that of the memory controller.
    pub memory: PathBuf,
    /// Version 1: their folder in the hierarchy that counts CPU time, where there is one that can be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PathBuf>,
}

impl CgroupTree {
    /// The root of the cluster with this state directory, below the cgroup of these folders.
    pub(super) fn of(state_dir: &Path, version: CgroupVersion, memory: &Path, cpu: Option<&Path>) -> Self {
        let mut hash = DefaultHasher::new();
        state_dir.hash(&mut hash);
        let name = format!("flexor-{:016x}", hash.finish());
        Self { version, memory: memory.join(&name), cpu: cpu.map(|cpu| cpu.join(&name)) }
    }

    /// Creates the cgroup of a container with a limit in bytes.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn make(&self, pod: &str, container: &str, limit: u64) -> io::Result<Cgroup> {
        let below = |folder: &PathBuf| folder.join(pod).join(container);
        let group = Cgroup { version: self.version, memory: below(&self.memory), cpu: self.cpu.as_ref().map(below) };
        let mut made = group.make(limit);
        for _ in 1..TRIES {
            match &made {
                Err(error) if error.kind() == ErrorKind::NotFound => made = group.make(limit),
                Ok(()) | Err(_) => break,
            }
        }
        made.map(|()| group)
    }

    /// Removes the cgroups of a pod, kills the processes in them, and removes the root if it is empty then.
    ///
    /// # Errors
    ///
    /// A process does not end.
    pub fn remove_pod(&self, pod: &str) -> io::Result<()> {
        for folder in self.folders() {
            cgroup::remove(&folder.join(pod))?;
            // Other pods may be in it.
            _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Removes the cgroups of all pods that are not known. Returns whether none is left.
    pub(super) fn sweep(&self, is_known: impl Fn(&str) -> bool) -> bool {
        for folder in self.folders() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (name, path) = (entry.file_name(), entry.path());
                let is_pod = path.is_dir() && name != *super::detection::LEAF;
                if is_pod && !name.to_str().is_some_and(&is_known) {
                    // The next start of the cluster tries again.
                    _ = cgroup::remove(&path);
                }
            }
            // Fails while a process is left in the leaf.
            _ = fs::remove_dir(folder.join(super::detection::LEAF));
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
    fn removing_a_pod_leaves_nothing_of_it_and_all_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, cpu) = (folder.path().join("memory"), folder.path().join("cpuacct"));
        [&memory, &cpu].iter().for_each(|own| fs::create_dir(own).unwrap());
        let groups = CgroupTree::of(Path::new("/home"), CgroupVersion::V1, &memory, Some(&cpu));
        assert_ne!(groups, CgroupTree::of(Path::new("/other"), CgroupVersion::V1, &memory, Some(&cpu)));
        for pod in ["one", "two"] {
            let group = groups.make(pod, "main", 1 << 20).unwrap();
            // The kernel removes the files of a real cgroup with it.
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
