//! PaddlePaddle's packages, from the cache.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use flexor_testbed::cache_dir;

use super::super::cores::ServerCores;
use super::super::go_server::run;

/// The only packages that pip installs.
const PACKAGES: &str = include_str!("packages.txt");
/// Loads the module that the server needs.
const CHECK: &str = "from paddle.base import core; core.DistFleetWrapper; from paddle.static import Program";

/// The folder that Python finds them in.
pub(in super::super) struct Installed {
    folder: PathBuf,
}

impl Installed {
    pub(in super::super) fn ensure() -> Result<Self> {
        let cache = cache_dir()?;
        let installed = Self { folder: cache.join("paddlepaddle-2.6.2") };
        if installed.folder.is_dir() {
            return Ok(installed);
        }
        eprintln!("installing PaddlePaddle 2.6.2 … (first time only, 160 MB to download)");
        fs::create_dir_all(&cache)?;
        let unfinished = tempfile::tempdir_in(&cache)?;
        let list = unfinished.path().join("requirements.txt");
        fs::write(&list, PACKAGES)?;
        let unpacked = Self { folder: unfinished.path().join("unpacked") };
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--require-hashes"]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(&unpacked.folder).arg("-r").arg(&list);
        run(&mut pip, "is python3 of version 3.11, and the package index (`pip config list`) reachable?")?;
        run(unpacked.prepare(&mut Command::new("python3")).args(["-c", CHECK]), "is python3 of version 3.11?")?;
        fs::rename(&unpacked.folder, &installed.folder)
            .with_context(|| format!("cannot move {} into place", installed.folder.display()))?;
        Ok(installed)
    }

    /// Python with these packages on the cores of servers.
    pub(super) fn python(&self, cores: &ServerCores) -> Command {
        let mut command = cores.command("python3");
        self.prepare(&mut command);
        command
    }

    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // It creates folders in its user's home directory when it is loaded.
        command.env("PYTHONPATH", &self.folder).env("PYTHONNOUSERSITE", "1").env("HOME", &self.folder)
    }
}
