//! The cgroup of one container: created with its limit, read, and removed.
//!
//! The two versions of the kernel's interface differ in their files, not in their meaning: a limit without swap, and a
//! count of OOM kills. Version 1 counts CPU time in a hierarchy of its own.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Killed processes take a moment to be gone.
const TRIES: u32 = 40;
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// A version of the kernel's cgroup interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupVersion {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CgroupVersion::V1 => "by cgroup v1",
            CgroupVersion::V2 => "by cgroup v2",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub version: CgroupVersion,
    /// Its folder; in version 1 that of the memory controller.
    pub memory: PathBuf,
    /// Version 1: its folder in the hierarchy that counts CPU time, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupUsage {
    /// In bytes, without inactive file cache.
    pub memory: u64,
    /// CPU time since the cgroup was created; nothing where no hierarchy counts it.
    pub cpu: Option<Duration>,
}

impl Cgroup {
    /// Creates the cgroup with a limit in bytes and no swap. An existing one gets the limit.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn make(&self, limit: u64) -> io::Result<()> {
        let limit = limit.to_string();
        self.folders().try_for_each(|folder| make_folders(folder, self.version))?;
        match self.version {
            CgroupVersion::V1 => {
                fs::write(self.memory.join("memory.limit_in_bytes"), &limit)?;
                write_if_there(&self.memory.join("memory.memsw.limit_in_bytes"), &limit)
            }
            CgroupVersion::V2 => {
                fs::write(self.memory.join("memory.max"), &limit)?;
                write_if_there(&self.memory.join("memory.swap.max"), "0")?;
                write_if_there(&self.memory.join("memory.oom.group"), "1")
            }
        }
    }

    /// The folders whose `cgroup.procs` must list a member.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.memory).chain(&self.cpu)
    }

    /// How many of its processes the kernel's OOM killer has killed.
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            CgroupVersion::V1 => "memory.oom_control",
            CgroupVersion::V2 => "memory.events",
        };
        field(&self.memory.join(file), "oom_kill").unwrap_or(0)
    }

    /// Its usage; nothing once it is removed.
    pub fn usage(&self) -> Option<CgroupUsage> {
        let (used, cached) = match self.version {
            CgroupVersion::V1 => ("memory.usage_in_bytes", "total_inactive_file"),
            CgroupVersion::V2 => ("memory.current", "inactive_file"),
        };
        let used = number(&self.memory.join(used))?;
        let cached = field(&self.memory.join("memory.stat"), cached).unwrap_or(0);
        let cpu = match self.version {
            CgroupVersion::V1 => {
                self.cpu.as_ref().and_then(|cpu| number(&cpu.join("cpuacct.usage"))).map(Duration::from_nanos)
            }
            CgroupVersion::V2 => field(&self.memory.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
        };
        Some(CgroupUsage { memory: used.saturating_sub(cached), cpu })
    }
}

/// Removes a cgroup with all below it, and kills the processes that are still there.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = remove_once(folder);
        match &last {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(TRY_AGAIN),
            Ok(()) | Err(_) => break,
        }
    }
    last
}

fn remove_once(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_once(&entry.path())?;
        }
    }
    let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in list.lines().filter_map(|pid| pid.parse().ok()) {
        // The process may have ended meanwhile.
        _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Creates the folder of a cgroup, and those of its pod and its cluster, in the cluster's own cgroup.
fn make_folders(folder: &Path, version: CgroupVersion) -> io::Result<()> {
    let above: Vec<&Path> = folder.ancestors().skip(1).take(2).collect();
    for folder in above.into_iter().rev() {
        make_folder(folder)?;
        match version {
            CgroupVersion::V1 => {}
            // It must delegate the controller to those below.
            CgroupVersion::V2 => fs::write(folder.join("cgroup.subtree_control"), "+memory")?,
        }
    }
    make_folder(folder)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Not every kernel has every file: one without swap has no files for swap.
fn write_if_there(file: &Path, text: &str) -> io::Result<()> {
    if file.try_exists()? { fs::write(file, text) } else { Ok(()) }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number behind a field's name.
fn field(file: &Path, word: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(version: CgroupVersion, at: &Path) -> Cgroup {
        Cgroup { version, memory: at.join("own/cluster/pod/main"), cpu: None }
    }

    fn read(at: &Path, file: &str) -> String {
        fs::read_to_string(at.join("own/cluster").join(file)).unwrap_or_default()
    }

    #[test]
    fn in_version_2_the_ancestors_delegate_the_controller_and_there_is_no_swap() {
        let folder = tempfile::tempdir().unwrap();
        let (at, group) = (folder.path(), group(CgroupVersion::V2, folder.path()));
        fs::create_dir_all(&group.memory).unwrap();
        fs::write(group.memory.join("memory.swap.max"), "max").unwrap();
        fs::write(group.memory.join("memory.oom.group"), "0").unwrap();
        group.make(64 << 20).unwrap();
        let written = ["pod/main/memory.max", "pod/main/memory.swap.max", "pod/main/memory.oom.group"];
        assert_eq!(written.map(|file| read(at, file)), ["67108864", "0", "1"]);
        assert_eq!(read(at, "cgroup.subtree_control"), "+memory");
        assert_eq!(read(at, "pod/cgroup.subtree_control"), "+memory");
        assert!(!at.join("own/cgroup.subtree_control").exists(), "detection has done that");
    }

    #[test]
    fn in_version_1_memory_and_swap_together_have_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = folder.path().join("cpuacct/cluster/pod/main");
        fs::create_dir(folder.path().join("cpuacct")).unwrap();
        let group = Cgroup { cpu: Some(cpu.clone()), ..group(CgroupVersion::V1, folder.path()) };
        fs::create_dir_all(&group.memory).unwrap();
        fs::write(group.memory.join("memory.memsw.limit_in_bytes"), "").unwrap();
        group.make(4096).unwrap();
        let written = ["pod/main/memory.limit_in_bytes", "pod/main/memory.memsw.limit_in_bytes"];
        assert_eq!(written.map(|file| read(folder.path(), file)), ["4096", "4096"]);
        assert!(cpu.is_dir() && group.folders().eq([&group.memory, &cpu]));
    }

    #[test]
    fn kills_and_usage_are_read_from_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = folder.path().join("cpu/cluster/pod/main");
        fs::create_dir(folder.path().join("cpu")).unwrap();
        for (version, files) in [
            (
                CgroupVersion::V1,
                [
                    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
                    ("memory.usage_in_bytes", "1000\n"),
                    ("memory.stat", "inactive_file 1\ntotal_inactive_file 200\n"),
                    ("cpuacct.usage", "2000000\n"),
                ],
            ),
            (
                CgroupVersion::V2,
                [
                    ("memory.events", "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n"),
                    ("memory.current", "1000\n"),
                    ("memory.stat", "anon 5\ninactive_file 200\n"),
                    ("cpu.stat", "usage_usec 2000\nuser_usec 1500\n"),
                ],
            ),
        ] {
            let group = Cgroup { cpu: Some(cpu.clone()), ..group(version, folder.path()) };
            assert_eq!((group.kills(), group.usage()), (0, None), "there is none yet");
            fs::create_dir(folder.path().join("own")).unwrap();
            group.make(1).unwrap();
            for (file, text) in files {
                let folder = if file.starts_with("cpuacct") { &cpu } else { &group.memory };
                fs::write(folder.join(file), text).unwrap();
            }
            let usage = CgroupUsage { memory: 800, cpu: Some(Duration::from_millis(2)) };
            assert_eq!((group.kills(), group.usage()), (3, Some(usage)), "{version}");
            fs::remove_dir_all(folder.path().join("own")).unwrap();
        }
    }
}
