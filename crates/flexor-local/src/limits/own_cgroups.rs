//! The cgroups of this process, as folders of the file system.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnCgroups {
    /// Version 1, memory.
    pub(super) memory: Option<PathBuf>,
    /// Version 1, CPU time.
    pub(super) cpu: Option<PathBuf>,
    /// Version 2.
    pub(super) unified: Option<PathBuf>,
}

impl OwnCgroups {
    /// Parses `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
    pub(super) fn read(cgroup: &str, mounts: &str) -> Self {
        let mut own = Self::default();
        for line in cgroup.lines() {
            // Number, controllers and path; version 2 has the number 0 and no controllers.
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let has = |controller: &str| controllers.split(',').any(|known| known == controller);
            if number == "0" {
                own.unified = folder(mounts, "cgroup2", None, path);
            }
            if has("memory") {
                own.memory = folder(mounts, "cgroup", Some("memory"), path);
            }
            if has("cpuacct") {
                own.cpu = folder(mounts, "cgroup", Some("cpuacct"), path);
            }
        }
        own
    }
}

/// The folder of the cgroup with this path in its hierarchy.
fn folder(mounts: &str, kind: &str, controller: Option<&str>, path: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        // Ids, device, root, mount point and options; after a dash the kind, the source and options of the hierarchy.
        let (mount, hierarchy) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut hierarchy = hierarchy.split(' ');
        let is_kind = hierarchy.next()? == kind;
        let options = hierarchy.nth(1)?;
        let is_it = is_kind && controller.is_none_or(|wanted| options.split(',').any(|known| known == wanted));
        let below = Path::new(path).strip_prefix(root).ok()?;
        is_it.then(|| Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_side_by_side() {
        let cgroup = "5:memory:/user/me\n4:cpu,cpuacct:/\n1:name=systemd:/\n0::/user.slice\n";
        let mounts = "30 1 0:1 / / rw - ext4 /dev/vda rw\n\
            31 30 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            32 31 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            33 31 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            34 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = OwnCgroups::read(cgroup, mounts);
        assert_eq!(own.memory.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/user/me")));
        assert_eq!(own.cpu.as_deref(), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct/")));
        assert_eq!(own.unified.as_deref(), Some(Path::new("/sys/fs/cgroup/unified/user.slice")));
    }

    #[test]
    fn a_part_of_a_hierarchy_may_be_mounted_and_another_part_is_out_of_reach() {
        let mounts = "9 8 0:2 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let of = |path: &str| OwnCgroups::read(&format!("0::{path}\n"), mounts).unified;
        assert_eq!(of("/docker/abc/job"), Some("/sys/fs/cgroup/job".into()));
        assert_eq!(of("/docker/xyz"), None);
        assert_eq!(OwnCgroups::read("0::/\nnonsense\n", ""), OwnCgroups::default());
    }
}
