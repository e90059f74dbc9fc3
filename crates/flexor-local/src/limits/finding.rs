//! Finds out by which means memory can be limited here, by trying.
//!
//! Groups are made only below the one that the cluster was started in. Version 2 wants a group that passes a controller
//! on to have no processes of its own, so the cluster moves into a leaf; if others are in its group too, it leaves
//! everything as it is.

use std::fs;
use std::io;
use std::path::Path;

use super::MemoryLimits;
use super::group::Version;
use super::groups::Groups;
use super::own::Own;

/// Where the cluster itself is, with version 2; in it are the parents of its pods too.
pub(super) const LEAF: &str = "cluster";
/// What is made to see whether it can be, and removed at once.
const TRIAL: &str = "trial";

/// How memory is to be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// By the best means there is.
    #[default]
    Best,
    /// By looking at processes.
    Watched,
}

/// By which means memory is limited in the cluster of this home, whose process this is.
pub fn find(wanted: Wanted, state_dir: &Path) -> MemoryLimits {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    match wanted {
        Wanted::Best => {
            let own = Own::read(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
            best(&own, state_dir).map_or_else(MemoryLimits::Watched, MemoryLimits::Groups)
        }
        Wanted::Watched => MemoryLimits::Watched("that was asked for".to_owned()),
    }
}

/// The groups of this home, or why there can be none.
fn best(own: &Own, state_dir: &Path) -> Result<Groups, String> {
    let refused = |folder: &Path, error: &io::Error| format!("no cgroup can be made in {}: {error}", folder.display());
    if let Some(unified) =
        own.unified.as_deref().filter(|folder| has_word(&folder.join("cgroup.controllers"), "memory"))
    {
        let groups = Groups::of(state_dir, Version::V2, unified, None);
        make_room(unified, &groups)?;
        try_out(&groups).map_err(|error| refused(unified, &error))?;
        return Ok(groups);
    }
    let Some(memory) = &own.memory else { return Err("this machine offers no cgroup that limits memory".to_owned()) };
    let groups = Groups::of(state_dir, Version::V1, memory, None);
    try_out(&groups).map_err(|error| refused(memory, &error))?;
    let with_cpu = Groups::of(state_dir, Version::V1, memory, own.cpu.as_deref());
    Ok(if try_out(&with_cpu).is_ok() { with_cpu } else { groups })
}

/// Makes a group and removes it.
fn try_out(groups: &Groups) -> io::Result<()> {
    groups.make(TRIAL, TRIAL, 1 << 30)?;
    groups.remove_pod(TRIAL)
}

/// Lets a group of version 2 pass memory on to those below it.
fn make_room(unified: &Path, groups: &Groups) -> Result<(), String> {
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
        // As it was before. Where even that fails, the cluster has only gone into a group without limits.
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

    /// A group of version 2 with these processes in it.
    fn unified(at: &Path, controllers: &str, processes: &str) -> Own {
        for (file, text) in
            [("cgroup.controllers", controllers), ("cgroup.procs", processes), ("cgroup.subtree_control", "")]
        {
            fs::write(at.join(file), text).unwrap();
        }
        Own { unified: Some(at.to_owned()), ..Own::default() }
    }

    fn read(path: &Path, file: &str) -> String {
        fs::read_to_string(path.join(file)).unwrap_or_default()
    }

    #[test]
    fn alone_in_its_group_the_cluster_moves_into_a_leaf_and_divides_it() {
        let folder = tempfile::tempdir().unwrap();
        unified(folder.path(), "cpu memory pids\n", &format!("{}\n", std::process::id()));
        let groups = Groups::of(Path::new("/home"), Version::V2, folder.path(), None);
        make_room(folder.path(), &groups).unwrap();
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
        let hybrid = Own { memory: Some("/no/such/folder".into()), ..unified(folder.path(), "hugetlb\n", "1\n") };
        let why = best(&hybrid, Path::new("/home")).unwrap_err();
        assert_eq!(why, "no cgroup can be made in /no/such/folder: No such file or directory (os error 2)");
        let nothing = best(&Own::default(), Path::new("/home")).unwrap_err();
        assert_eq!(nothing, "this machine offers no cgroup that limits memory");
    }

    #[test]
    fn what_was_asked_for_is_told() {
        let limits = find(Wanted::Watched, Path::new("/home"));
        assert_eq!(limits.to_string(), "best effort: looked at ten times a second, because that was asked for");
    }
}
