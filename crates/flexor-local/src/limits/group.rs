//! The control group of one container: made with its limit, read, and removed.
//!
//! The two versions of the kernel's interface have other files and the same meaning: so much memory, none of it in swap,
//! and a count of those that were killed for wanting more. Version 1 has processor time in a hierarchy of its own.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Processes that were killed take a moment to be gone.
const TRIES: u32 = 40;
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// A version of the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1 => "by cgroup v1",
            Version::V2 => "by cgroup v2",
        })
    }
}

/// The control group of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Of this version.
    pub version: Version,
    /// Its folder.
    pub memory: PathBuf,
    /// Version 1: its folder in the hierarchy that counts processor time, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<PathBuf>,
}

/// What a group uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupUsage {
    /// Bytes of memory, without files that could be read again.
    pub memory: u64,
    /// Processor time since the group was made; nothing where nobody counts it.
    pub cpu: Option<Duration>,
}

impl Group {
    /// Makes the group with so many bytes of memory and no swap. One that is there already gets the limit.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn make(&self, limit: u64) -> io::Result<()> {
        let limit = limit.to_string();
        self.folders().try_for_each(|folder| make_folders(folder, self.version))?;
        match self.version {
            Version::V1 => {
                fs::write(self.memory.join("memory.limit_in_bytes"), &limit)?;
                write_if_there(&self.memory.join("memory.memsw.limit_in_bytes"), &limit)
            }
            Version::V2 => {
                fs::write(self.memory.join("memory.max"), &limit)?;
                write_if_there(&self.memory.join("memory.swap.max"), "0")?;
                write_if_there(&self.memory.join("memory.oom.group"), "1")
            }
        }
    }

    /// The folders whose lists a process has to be in.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.memory).chain(&self.cpu)
    }

    /// How many of its processes were killed because there was no memory for them.
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        fields(&self.memory.join(file), "oom_kill").unwrap_or(0)
    }

    /// What it uses; nothing where it is gone.
    pub fn usage(&self) -> Option<GroupUsage> {
        let (used, cached) = match self.version {
            Version::V1 => ("memory.usage_in_bytes", "total_inactive_file"),
            Version::V2 => ("memory.current", "inactive_file"),
        };
        let used = number(&self.memory.join(used))?;
        let cached = fields(&self.memory.join("memory.stat"), cached).unwrap_or(0);
        let cpu = match self.version {
            Version::V1 => {
                self.cpu.as_ref().and_then(|cpu| number(&cpu.join("cpuacct.usage"))).map(Duration::from_nanos)
            }
            Version::V2 => fields(&self.memory.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
        };
        Some(GroupUsage { memory: used.saturating_sub(cached), cpu })
    }
}

/// Removes a folder of groups with all in it, after killing whoever is still there.
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
        // It may have ended meanwhile, which is what is wanted.
        _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes the folder of a group, and those of its pod and its cluster, in the group that the cluster was started in.
fn make_folders(folder: &Path, version: Version) -> io::Result<()> {
    let above: Vec<&Path> = folder.ancestors().skip(1).take(2).collect();
    for folder in above.into_iter().rev() {
        make_folder(folder)?;
        match version {
            Version::V1 => {}
            // It has to pass the controller on.
            Version::V2 => fs::write(folder.join("cgroup.subtree_control"), "+memory")?,
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

/// Not every kernel has every file: those without swap have none about it.
fn write_if_there(file: &Path, text: &str) -> io::Result<()> {
    if file.try_exists()? { fs::write(file, text) } else { Ok(()) }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number that follows a word at the start of a line.
fn fields(file: &Path, word: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(version: Version, at: &Path) -> Group {
        Group { version, memory: at.join("own/cluster/pod/main"), cpu: None }
    }

    fn read(at: &Path, file: &str) -> String {
        fs::read_to_string(at.join("own/cluster").join(file)).unwrap_or_default()
    }

    #[test]
    fn in_version_2_those_above_pass_the_controller_on_and_swap_does_not_help() {
        let folder = tempfile::tempdir().unwrap();
        let (at, group) = (folder.path(), group(Version::V2, folder.path()));
        fs::create_dir_all(&group.memory).unwrap();
        fs::write(group.memory.join("memory.swap.max"), "max").unwrap();
        fs::write(group.memory.join("memory.oom.group"), "0").unwrap();
        group.make(64 << 20).unwrap();
        let written = ["pod/main/memory.max", "pod/main/memory.swap.max", "pod/main/memory.oom.group"];
        assert_eq!(written.map(|file| read(at, file)), ["67108864", "0", "1"]);
        assert_eq!(read(at, "cgroup.subtree_control"), "+memory");
        assert_eq!(read(at, "pod/cgroup.subtree_control"), "+memory");
        assert!(!at.join("own/cgroup.subtree_control").exists(), "whoever starts the cluster has done that");
    }

    #[test]
    fn in_version_1_memory_and_swap_together_have_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = folder.path().join("cpuacct/cluster/pod/main");
        fs::create_dir(folder.path().join("cpuacct")).unwrap();
        let group = Group { cpu: Some(cpu.clone()), ..group(Version::V1, folder.path()) };
        fs::create_dir_all(&group.memory).unwrap();
        fs::write(group.memory.join("memory.memsw.limit_in_bytes"), "").unwrap();
        group.make(4096).unwrap();
        let written = ["pod/main/memory.limit_in_bytes", "pod/main/memory.memsw.limit_in_bytes"];
        assert_eq!(written.map(|file| read(folder.path(), file)), ["4096", "4096"]);
        assert!(cpu.is_dir() && group.folders().eq([&group.memory, &cpu]));
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = folder.path().join("cpu/cluster/pod/main");
        fs::create_dir(folder.path().join("cpu")).unwrap();
        for (version, files) in [
            (
                Version::V1,
                [
                    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
                    ("memory.usage_in_bytes", "1000\n"),
                    ("memory.stat", "inactive_file 1\ntotal_inactive_file 200\n"),
                    ("cpuacct.usage", "2000000\n"),
                ],
            ),
            (
                Version::V2,
                [
                    ("memory.events", "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n"),
                    ("memory.current", "1000\n"),
                    ("memory.stat", "anon 5\ninactive_file 200\n"),
                    ("cpu.stat", "usage_usec 2000\nuser_usec 1500\n"),
                ],
            ),
        ] {
            let group = Group { cpu: Some(cpu.clone()), ..group(version, folder.path()) };
            assert_eq!((group.kills(), group.usage()), (0, None), "there is none yet");
            fs::create_dir(folder.path().join("own")).unwrap();
            group.make(1).unwrap();
            for (file, text) in files {
                let folder = if file.starts_with("cpuacct") { &cpu } else { &group.memory };
                fs::write(folder.join(file), text).unwrap();
            }
            let usage = GroupUsage { memory: 800, cpu: Some(Duration::from_millis(2)) };
            assert_eq!((group.kills(), group.usage()), (3, Some(usage)), "{version}");
            fs::remove_dir_all(folder.path().join("own")).unwrap();
        }
    }
}
