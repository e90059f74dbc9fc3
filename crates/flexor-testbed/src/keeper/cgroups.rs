//! The cgroups of one cluster's real nodes. They are outside all namespaces, so they must be removed at the end.
//!
//! A cluster's cgroup has the name of its folder, in every hierarchy. The keeper removes it after the last process;
//! [`remove`] does the same for a cluster whose keeper was killed too. Both cgroup versions are supported; with version
//! 1 each controller is a hierarchy of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

/// Makes the cgroup `path` (such as `CLUSTER/node-1`) in every hierarchy, ready for a kubelet.
pub(crate) fn create(path: &Path) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
    let hierarchies = hierarchies(&mounts);
    ensure!(!hierarchies.is_empty(), "no cgroup hierarchy is mounted below /sys/fs/cgroup");
    for hierarchy in hierarchies {
        let mut group = hierarchy;
        for part in path {
            let parent = group.clone();
            group.push(part);
            make_below(&parent, &group).with_context(|| format!("make the cgroup {}", group.display()))?;
        }
    }
    Ok(())
}

/// Removes the cgroup `name` and all below it from every hierarchy, as far as they are empty.
pub(super) fn remove(name: &str) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for hierarchy in hierarchies(&mounts) {
        remove_tree(&hierarchy.join(name));
    }
}

/// Makes one cgroup. It gets the processors, the memory nodes and the controllers of its parent.
fn make_below(parent: &Path, group: &Path) -> std::io::Result<()> {
    // A parent of version 2 passes on only the controllers that this file names.
    let controllers = parent.join("cgroup.controllers");
    if controllers.exists() {
        let names = fs::read_to_string(controllers)?;
        let enabled: Vec<String> = names.split_whitespace().map(|name| format!("+{name}")).collect();
        fs::write(parent.join("cgroup.subtree_control"), enabled.join(" "))?;
    }
    fs::create_dir_all(group)?;
    // A fresh cpuset of version 1 is empty, and no process can enter it.
    if !group.join("cgroup.controllers").exists() {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if parent.join(file).exists() {
                fs::write(group.join(file), fs::read_to_string(parent.join(file))?)?;
            }
        }
    }
    Ok(())
}

/// The mount points of version 1; without one, that of version 2. A hybrid system has both, and container runtimes use
/// version 1 there.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let of = |kind: &str| -> Vec<PathBuf> {
        let lines = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let (point, found) = (fields.nth(1)?, fields.next()?);
            (found == kind && point.starts_with("/sys/fs/cgroup")).then(|| point.into())
        });
        lines.collect()
    };
    let first = of("cgroup");
    if first.is_empty() { of("cgroup2") } else { first }
}

/// Removes cgroups deepest first. A cgroup is a folder whose files cannot be removed one by one.
fn remove_tree(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_system_counts_as_version_1() {
        let version_1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw 0 0\n";
        let version_2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let hybrid = format!("{version_1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ntmpfs /run tmpfs rw 0 0\n");
        assert_eq!(hierarchies(version_2), [Path::new("/sys/fs/cgroup")]);
        assert_eq!(hierarchies(&hybrid), hierarchies(version_1));
        assert_eq!(hierarchies(version_1), ["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids"].map(Path::new));
    }

    #[test]
    fn a_new_group_gets_what_its_parent_has() {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")] {
            fs::write(root.path().join(file), text).unwrap();
        }
        let group = root.path().join("cluster");
        make_below(root.path(), &group).unwrap();
        assert_eq!(fs::read_to_string(group.join("cpuset.cpus")).unwrap(), "0-1\n");

        let second = tempfile::tempdir().unwrap();
        fs::write(second.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        make_below(second.path(), &second.path().join("cluster")).unwrap();
        let passed_on = fs::read_to_string(second.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(passed_on, "+cpu +memory +pids");
    }

    #[test]
    fn groups_are_removed_deepest_first() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("cluster");
        fs::create_dir_all(group.join("node-1/kubepods/pod")).unwrap();
        remove_tree(&group);
        assert!(!group.exists());
    }
}
