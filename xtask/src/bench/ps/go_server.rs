//! ElasticDL's released parameter server, from its package on PyPI.
//!
//! It expects to be in a cluster: without a service-account token it ends at once. It therefore runs in its own mount
//! namespace with a dummy token.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flexor_testbed::cache_dir;
use nix::unistd::Uid;

use super::case::Case;
use super::our_server::{RunningServer, free_port};
use super::side::Programs;

pub(super) const NAME: &str = "ElasticDL 0.2.0rc3";

/// The only package that pip installs.
const PACKAGE: &str =
    "elasticdl==0.2.0rc3 --hash=sha256:f3673411fad8658ccd726e1a79eda13dff1ab50e49ddf5714c21a5030978e2f6\n";

/// Gives the server a token, and becomes it.
const START: &str = "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
                     echo none > /run/secrets/kubernetes.io/serviceaccount/token && exec \"$@\"";

/// The program, from the cache.
pub(super) fn ensure() -> Result<PathBuf> {
    let cache = cache_dir()?;
    let folder = cache.join("elasticdl-0.2.0rc3");
    let program = folder.join("elasticdl/go/bin/elasticdl_ps");
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&cache)?;
    let unfinished = tempfile::tempdir_in(&cache)?;
    let list = unfinished.path().join("requirements.txt");
    fs::write(&list, PACKAGE)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r"]).arg(&list);
    run(pip.arg("-d").arg(unfinished.path()), "is the package index (`pip config list`) reachable?")?;
    let wheel = unfinished.path().join("elasticdl-0.2.0rc3-py3-none-any.whl");
    let unpacked = unfinished.path().join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked), "is the package whole?")?;
    let server = unpacked.join("elasticdl/go/bin/elasticdl_ps");
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).context("the package has no server")?;
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot move {} into place", folder.display()))?;
    Ok(program)
}

/// Runs a step of an installation to its end.
pub(super) fn run(command: &mut Command, hint: &str) -> Result<()> {
    let done = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let printed = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?} failed; {hint}\n{}", printed.trim());
    Ok(())
}

/// Starts it, without a master.
pub(super) fn start(programs: &Programs, case: &Case) -> Result<RunningServer> {
    let (port, (opt_type, opt_args)) = (free_port()?, case.optimizer.arguments());
    let mut command = programs.cores.command("unshare");
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", START, "sh"]).arg(&programs.go_server);
    command.args(["-job_name=race", "-namespace=default", "-master_addr=", "-num_ps_pods=1", "-ps_id=0"]);
    command.arg(format!("-port={port}")).arg(format!("-num_workers={}", case.clients.max(8)));
    command.arg(format!("-opt_type={opt_type}")).arg(format!("-opt_args={opt_args}"));
    command.env("MY_POD_IP", "127.0.0.1");
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "1");
    RunningServer::start(&mut command, port)
}
