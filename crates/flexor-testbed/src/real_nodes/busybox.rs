//! The image that is on every node: a shell and small tools for tests, and the process that holds a pod's namespaces.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use flexor_image::{Image, ImageConfig, RootFiles};

use super::packages;

/// An image with busybox on every real node, for pods of tests. No registry has it: pods that name it need
/// `imagePullPolicy: IfNotPresent` or `Never`.
pub const BUSYBOX_IMAGE: &str = "testbed.flexor.dev/busybox:1";

/// Does nothing for ever, and reaps the orphans of pods that share a process-id namespace.
const PAUSE: &str = "while :; do sleep 86400 & wait $!; done";

/// Makes the image's archive in `folder`.
pub(super) fn archive(folder: &Path) -> anyhow::Result<PathBuf> {
    let busybox = packages::find("busybox").context("busybox is not installed")?;
    let applets = Command::new(&busybox).arg("--list").output().context("run busybox")?;
    ensure!(applets.status.success(), "{} --list ended with {}", busybox.display(), applets.status);
    let mut files = RootFiles::new();
    files.copy(&busybox, "/bin/busybox", 0o755)?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|applet| *applet != "busybox") {
        files.symlink(Path::new("/bin").join(applet), "busybox")?;
    }
    files.directory("/etc", 0o755)?;
    files.directory("/root", 0o700)?;
    files.directory("/tmp", 0o1777)?;
    let config = ImageConfig {
        cmd: vec!["sh".into(), "-c".into(), PAUSE.into()],
        env: vec!["PATH=/bin".into()],
        ..ImageConfig::default()
    };
    let archive = folder.join("busybox.tar");
    Image { files, config }.write_docker_archive(&archive, &BUSYBOX_IMAGE.parse()?)?;
    Ok(archive)
}
