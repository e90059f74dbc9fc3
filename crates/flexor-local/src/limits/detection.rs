//! Detects by trying whether cgroups can limit memory on this machine.
//!
//! The cluster creates cgroups only below its own. In version 2 a cgroup that delegates a controller must have no
//! processes, so the cluster moves into a leaf. Where its cgroup has processes of others, it changes nothing.

use std::fs;
use std::io;
use std::path::Path;

use super::MemoryLimits;
use super::cgroup::CgroupVersion;
use super::cgroup_tree::CgroupTree;
use super::own_cgroups::OwnCgroups;

/// Version 2: the leaf of the cluster's own process and of its pods' supervisors.
pub(super) const LEAF: &str = "cluster";
/// The cgroup that is created as a trial and removed at once.
const TRIAL: &str = "trial";

/// How a cluster should limit memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitsMode {
    /// By cgroups where possible, else by polling.
    #[default]
    Best,
    /// By polling processes.
    Watched,
}

/// The means of the cluster with this state directory. Must be called by the cluster's own process.
pub fn detect(mode: LimitsMode, state_dir: &Path) -> MemoryLimits {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    match mode {
        LimitsMode::Best => {
            let own = OwnCgroups::read(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
            best(&own, state_dir).map_or_else(MemoryLimits::Watched, MemoryLimits::Cgroups)
        }
        LimitsMode::Watched => MemoryLimits::Watched("that was asked for".to_owned()),
    }
}

/// The cgroups of this state directory, or why there can be none.
fn best(own: &OwnCgroups, state_dir: &Path) -> Result<CgroupTree, String> {
    let refused = |folder: &Path, error: &io::Error| format!("no cgroup can be made in {}: {error}", folder.display());
    if let Some(unified) =
        own.unified.as_deref().filter(|folder| has_word(&folder.join("cgroup.controllers"), "memory"))
    {
        let groups = CgroupTree::of(state_dir, CgroupVersion::V2, unified, None);
        delegate_memory(unified, &groups)?;
        try_out(&groups).map_err(|error| refused(unified, &error))?;
        return Ok(groups);
    }
    let Some(memory) = &own.memory else { return Err("this machine offers no cgroup that limits memory".to_owned()) };
    let groups = CgroupTree::of(state_dir, CgroupVersion::V1, memory, None);
    try_out(&groups).map_err(|error| refused(memory, &error))?;
    let with_cpu = CgroupTree::of(state_dir, CgroupVersion::V1, memory, own.cpu.as_deref());
    Ok(if try_out(&with_cpu).is_ok() { with_cpu } else { groups })
}

/// Creates a cgroup and removes it.
fn try_out(groups: &CgroupTree) -> io::Result<()> {
    groups.make(TRIAL, TRIAL, 1 << 30)?;
    groups.remove_pod(TRIAL)
}

/// Has a cgroup of version 2 delegate its memory controller.
fn delegate_memory(unified: &Path, groups: &CgroupTree) -> Result<(), String> {
    let passed_on = unified.join("cgroup.subtree_control");
    if has_word(&passed_on, "memory") {
        return Ok(());
    }
    let refused =
        |error: io::Error| format!("the cgroup {} cannot be divided: {error}; {OWN_SCOPE}", unified.display());
    let list = unified.join("cgroup.procs");
    let here = fs::read_to_string(&list).map_err(refused)?;
    let own = std::process::id().to_string();
    if here.lines().any(|pid| pid != own) {
        return Err(format!("other programs are in its cgroup {}; {OWN_SCOPE}", unified.display()));
    }
    let leaf = groups.memory.join(LEAF);
    let moved = fs::create_dir_all(&leaf).and_then(|()| fs::write(leaf.join("cgroup.procs"), "0"));
    moved.and_then(|()| fs::write(&passed_on, "+memory")).map_err(|error| {
        // Undoes everything. Where even that fails, the cluster is in a cgroup without limits, which does no harm.
        _ = fs::write(&list, "0");
        _ = fs::remove_dir(&leaf).and_then(|()| fs::remove_dir(&groups.memory));
        refused(error)
    })
}

const OWN_SCOPE: &str = "`systemd-run --user --scope -p Delegate=yes flexor run …` gives it one of its own";

fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_ascii_whitespace().any(|known| known == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cgroup of version 2 with these processes in it.
    fn unified(at: &Path, controllers: &str, processes: &str) -> OwnCgroups {
        for (file, text) in
            [("cgroup.controllers", controllers), ("cgroup.procs", processes), ("cgroup.subtree_control", "")]
        {
            fs::write(at.join(file), text).unwrap();
        }
        OwnCgroups { unified: Some(at.to_owned()), ..OwnCgroups::default() }
    }

    fn read(path: &Path, file: &str) -> String {
        fs::read_to_string(path.join(file)).unwrap_or_default()
    }

    #[test]
    fn alone_in_its_cgroup_the_cluster_moves_into_a_leaf_and_delegates() {
        let folder = tempfile::tempdir().unwrap();
        unified(folder.path(), "cpu memory pids\n", &format!("{}\n", std::process::id()));
        let groups = CgroupTree::of(Path::new("/home"), CgroupVersion::V2, folder.path(), None);
        delegate_memory(folder.path(), &groups).unwrap();
        assert_eq!(read(&groups.memory.join(LEAF), "cgroup.procs"), "0");
        assert_eq!(read(folder.path(), "cgroup.subtree_control"), "+memory");
    }

    #[test]
    fn beside_others_it_changes_nothing_and_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let own = unified(folder.path(), "memory\n", &format!("1\n{}\n", std::process::id()));
        let why = best(&own, Path::new("/home")).unwrap_err();
        assert!(why.contains("other programs are in its cgroup") && why.contains("systemd-run --user"), "{why}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(read(folder.path(), "cgroup.subtree_control"), "");
    }

    #[test]
    fn version_1_is_taken_where_version_2_has_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let hybrid =
            OwnCgroups { memory: Some("/no/such/folder".into()), ..unified(folder.path(), "hugetlb\n", "1\n") };
        let why = best(&hybrid, Path::new("/home")).unwrap_err();
        assert_eq!(why, "no cgroup can be made in /no/such/folder: No such file or directory (os error 2)");
        let nothing = best(&OwnCgroups::default(), Path::new("/home")).unwrap_err();
        assert_eq!(nothing, "this machine offers no cgroup that limits memory");
    }

    #[test]
    fn the_mode_that_was_asked_for_is_shown() {
        let limits = detect(LimitsMode::Watched, Path::new("/home"));
        assert_eq!(limits.to_string(), "best effort: looked at ten times a second, because that was asked for");
    }
}
