//! The root file system of the images with Python: a small Debian, made by debootstrap once and kept in the cache.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use crate::{
    log_tail::last_lines,
    real_nodes::{NodeToolsError, packages},
    tools::{cache_dir, shelf},
};

/// The version of Debian's Python in it.
pub(super) const PYTHON: &str = "3.11";

const SCRIPT: &str = include_str!("python_root.sh");

/// The folder of the file system, made first if it is not there: half a minute and 30 MB of downloads.
pub(super) fn ensure_made() -> anyhow::Result<PathBuf> {
    let digits: String = Sha256::digest(SCRIPT).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    shelf::ensure(&cache_dir()?.join("images/python-root"), &digits, make)
}

fn make(unfinished: &Path) -> anyhow::Result<PathBuf> {
    if !nix::unistd::geteuid().is_root() {
        return Err(NodeToolsError::NeedsRoot.into());
    }
    packages::ensure_program("debootstrap", "debootstrap")?;
    eprintln!("making a root file system with Python {PYTHON} … (first time only, half a minute)");
    let started = Instant::now();
    let root = unfinished.join("root");
    // In a mount namespace of its own: what debootstrap mounts in the folder must not outlive it.
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "flexor-testbed-python-root"]).arg(&root).args(mirror());
    command.env("PATH", packages::search_path()).stdin(Stdio::null());
    let output = command.output().context("start unshare; install util-linux")?;
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "debootstrap failed; is Debian's mirror reachable?\n{}", last_lines(&printed, 15));
    eprintln!("made the root file system in {:.0} s", started.elapsed().as_secs_f64());
    Ok(root)
}

/// The mirror that apt uses, where this is a Debian of the same release.
fn mirror() -> Option<String> {
    let only = ["CREATED-BY: Packages", "ORIGIN: Debian", "CODENAME: bookworm"];
    let output = Command::new("apt-get").args(["indextargets", "--format", "$(SITE)"]).args(only).output().ok()?;
    let sites = String::from_utf8(output.stdout).ok()?;
    sites.lines().find(|site| site.starts_with("http://") || site.starts_with("https://")).map(str::to_owned)
}
