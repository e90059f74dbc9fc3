//! An etcd with the v2 interface, for torch's rendezvous backends `etcd` and `etcd-v2`.
//!
//! The control plane's own etcd is of a later version, which has that interface no more. Debian's package is taken
//! apart instead of installed: installed, it would start a server on the machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use flexor_image::{Image, ImageConfig, RootFiles};

use crate::{
    real_nodes::packages,
    tools::{cache_dir, shelf},
};

const PACKAGE: &str = "etcd-server";
/// Where the program is in the package and in the image.
const PROGRAM: &str = "usr/bin/etcd";

/// The image: `etcd`, which a pod starts with its options.
pub(super) fn image() -> anyhow::Result<Image> {
    let mut files = RootFiles::new();
    files.program(&ensure_downloaded()?.join(PROGRAM), Path::new("/").join(PROGRAM))?;
    files.directory("/tmp", 0o1777)?;
    let config =
        ImageConfig { cmd: vec!["etcd".into()], env: vec!["PATH=/usr/bin:/bin".into()], ..ImageConfig::default() };
    Ok(Image { files, config })
}

/// The folder with the package's files, downloaded first if it is not there.
pub(super) fn ensure_downloaded() -> anyhow::Result<PathBuf> {
    shelf::ensure(&cache_dir()?.join("images").join(PACKAGE), "package", unpack)
}

fn unpack(unfinished: &Path) -> anyhow::Result<PathBuf> {
    eprintln!("downloading {PACKAGE} … (first time only, 8 MB)");
    packages::download(PACKAGE, unfinished)?;
    let mut entries = fs::read_dir(unfinished)?.flatten().map(|entry| entry.path());
    let archive = entries.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let archive = archive.with_context(|| format!("apt-get downloaded no {PACKAGE}"))?;
    let folder = unfinished.join("package");
    let mut command = Command::new("dpkg-deb");
    let output = command.arg("--extract").arg(&archive).arg(&folder).stdin(Stdio::null()).output();
    let output = output.context("start dpkg-deb")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot take {} apart: {}", archive.display(), complaint.trim());
    Ok(folder)
}
