//! The programs of a real node: built ones from the cache, and the container runtime from the system's packages.
//!
//! As root on Debian, missing packages are installed. Everywhere else the error names them.

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::tools::{NodePrograms, ToolsError, cache_dir};

/// Programs and the Debian packages that have them.
const NEEDED: [(&str, &str); 7] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("busybox", "busybox-static"),
    ("ip", "iproute2"),
];

/// Folders of CNI plugins, Debian's first.
const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
const PLUGINS_PACKAGE: &str = "containernetworking-plugins";

/// Everything that a cluster with real nodes runs, beyond the control plane.
#[derive(Debug, Clone)]
pub struct NodeTools {
    programs: NodePrograms,
    containerd: PathBuf,
    plugins: PathBuf,
}

/// Why there can be no real nodes on this machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeToolsError {
    /// An ordinary user cannot start containers.
    #[error("needs root to run kubelets and containers in namespaces")]
    NeedsRoot,
    /// The system lacks programs and they could not be installed.
    #[error("needs the Debian packages {}: {reason}", packages.join(" "))]
    Packages {
        packages: Vec<&'static str>,
        /// Why they were not installed.
        reason: String,
    },
    /// The built programs could not be had.
    #[error(transparent)]
    Build(#[from] ToolsError),
}

impl NodeToolsError {
    /// Whether the machine lacks a requirement, so that tests are skipped instead of failed.
    pub fn is_unmet_requirement(&self) -> bool {
        match self {
            Self::NeedsRoot | Self::Packages { .. } | Self::Build(ToolsError::GoMissing { .. }) => true,
            Self::Build(_) => false,
        }
    }
}

impl NodeTools {
    /// All programs, installed or built first where they are missing. Blocks for minutes on a machine's first call.
    pub fn ensure() -> Result<Self, NodeToolsError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(NodeToolsError::NeedsRoot);
        }
        let (containerd, plugins) = installed().or_else(|_| install())?;
        Ok(Self { programs: NodePrograms::ensure()?, containerd, plugins })
    }

    pub(super) fn programs(&self) -> &NodePrograms {
        &self.programs
    }

    pub(super) fn containerd(&self) -> &Path {
        &self.containerd
    }

    /// The folder of the CNI plugins.
    pub(super) fn plugins(&self) -> &Path {
        &self.plugins
    }
}

/// `PATH` with the folders of system programs, which some users' lacks.
pub(crate) fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
    path
}

/// Finds a program of the system.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// containerd and the folder of the CNI plugins, or the packages that are missing.
fn installed() -> Result<(PathBuf, PathBuf), NodeToolsError> {
    let mut packages: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    packages.dedup();
    let plugins = PLUGIN_FOLDERS.iter().map(PathBuf::from).find(|folder| folder.join("bridge").is_file());
    if plugins.is_none() {
        packages.push(PLUGINS_PACKAGE);
    }
    match (find("containerd"), plugins) {
        (Some(containerd), Some(plugins)) if packages.is_empty() => Ok((containerd, plugins)),
        _ => Err(NodeToolsError::Packages { packages, reason: "they are not installed".into() }),
    }
}

/// Installs what is missing. Of several processes one does it, and the others wait.
fn install() -> Result<(PathBuf, PathBuf), NodeToolsError> {
    let _lock = lock()?;
    match installed() {
        Err(NodeToolsError::Packages { packages, .. }) => {
            install_packages(packages)?;
            installed()
        }
        found => found,
    }
}

/// A program of the system; its package is installed first where it is missing.
pub(crate) fn ensure_program(program: &'static str, package: &'static str) -> Result<PathBuf, NodeToolsError> {
    let _lock = lock()?;
    if find(program).is_none() {
        install_packages(vec![package])?;
    }
    let missing = || NodeToolsError::Packages { packages: vec![package], reason: format!("it has no {program}") };
    find(program).ok_or_else(missing)
}

/// Downloads the archive of a package into `folder`, without installing it.
pub(crate) fn download(package: &'static str, folder: &Path) -> Result<(), NodeToolsError> {
    let done = apt_get(&["download", package], folder);
    done.map_err(|reason| NodeToolsError::Packages { packages: vec![package], reason })
}

/// The right to install packages, until it is dropped.
fn lock() -> Result<File, ToolsError> {
    let cache = cache_dir()?;
    let path = cache.join("packages.lock");
    let lock = std::fs::create_dir_all(&cache).and_then(|()| File::create(&path));
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
    lock.map_err(|source| ToolsError::Io { doing: format!("lock {}", path.display()), source })
}

fn install_packages(packages: Vec<&'static str>) -> Result<(), NodeToolsError> {
    eprintln!("installing {} … (first time only)", packages.join(" "));
    let install: Vec<&str> = ["install", "--yes", "--no-install-recommends"].iter().chain(&packages).copied().collect();
    apt_get(&install, Path::new("/")).map_err(|reason| NodeToolsError::Packages { packages, reason })
}

/// Runs apt-get in `folder`; a second try reads the package index anew.
fn apt_get(args: &[&str], folder: &Path) -> Result<(), String> {
    let run = |args: &[&str]| {
        let output = Command::new("apt-get")
            .args(args)
            .current_dir(folder)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start apt-get: {error}"))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("apt-get failed: {}", complaint.trim())) }
    };
    run(args).or_else(|_| run(&["update"]).and_then(|()| run(args)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_to_skip_says_what_is_needed() {
        let missing = NodeToolsError::Packages { packages: vec!["runc", "iptables"], reason: "no apt-get".into() };
        for (error, start) in [(NodeToolsError::NeedsRoot, "needs root"), (missing, "needs the Debian packages runc i")]
        {
            assert!(error.is_unmet_requirement());
            assert!(error.to_string().starts_with(start), "{error}");
        }
        let failed = ToolsError::Build { program: "kubelet", output: "no space left".into() };
        assert!(!NodeToolsError::from(failed).is_unmet_requirement());
    }

    #[test]
    fn system_programs_are_found_without_a_path_of_root() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program").is_none());
    }
}
