//! The folder of one cluster, and the removal of folders and cgroups without an owner.
//!
//! The keeper removes its cluster's folder when the owner ends. The sweep handles the case that keeper and owner were
//! killed together: the folder's name identifies its owner, so a later start finds out that the owner is gone.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use super::process_table;

const PREFIX: &str = "flexor-testbed";

/// Makes a folder in `parent` whose name identifies this process as its owner.
pub(super) fn create(parent: &Path) -> anyhow::Result<PathBuf> {
    let pid = std::process::id();
    let me = process_table::stat(pid).context("read /proc/self/stat; is /proc mounted?")?;
    let namespace = process_table::pid_namespace().context("read /proc/self/ns/pid; is /proc mounted?")?;
    let folder = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}.{namespace}.{pid}.{}.", me.start_time))
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .with_context(|| format!("make a folder in {}", parent.display()))?;
    Ok(folder.keep())
}

/// Removes the folders in `parent` whose owners are no longer alive.
pub(super) fn sweep(parent: &Path) {
    let Some(namespace) = process_table::pid_namespace() else {
        return;
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        let Some(owner) = Owner::parse(name) else {
            continue;
        };
        if owner.namespace == namespace && !owner.is_alive() {
            super::cgroups::remove(name);
            // Another user's folder refuses; its owner's next start will take it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that owns a folder.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    namespace: u64,
    pid: u32,
    start_time: u64,
}

impl Owner {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
        let owner = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
        };
        parts.next().map(|_random| owner)
    }

    fn is_alive(&self) -> bool {
        process_table::stat(self.pid).is_some_and(|found| found.start_time == self.start_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_removes_only_folders_of_ended_processes() {
        let parent = tempfile::tempdir().unwrap();
        let mine = create(parent.path()).unwrap();
        let namespace = process_table::pid_namespace().unwrap();
        let of = |name: String| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        // Our own process id with another start time: a process that had the id before us.
        let dead = of(format!("{PREFIX}.{namespace}.{}.1.abc", std::process::id()));
        let elsewhere = of(format!("{PREFIX}.{}.{}.1.abc", namespace + 1, std::process::id()));
        let stranger = of(format!("{PREFIX}-notes"));
        sweep(parent.path());
        assert!(!dead.exists());
        assert!(mine.exists() && elsewhere.exists() && stranger.exists());
    }
}
