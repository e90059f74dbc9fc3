//! The raced launchers: starts one process each, measures it while its workers run, and waits for its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use flexor_testbed::{Dlrover, Torch};

use super::program::{PROCESSES, Program};
use crate::bench::dlrover_master::DlroverMaster;
use crate::bench::our_master::{Disk, JOB, OurMaster};
use crate::bench::process_cost;

/// One competitor.
pub(super) enum Launcher {
    /// `flexor launch --standalone`, with its own master inside.
    FlexorAlone { flexor: PathBuf },
    /// `flexor launch` at a master that runs.
    FlexorAtMaster { flexor: PathBuf },
    /// Stock `torchrun --standalone`.
    Torchrun { torch: Torch },
    /// DLRover's agent at its own running master; alone it does not work with this torch.
    DlroverAgent { torch: Torch, dlrover: Dlrover },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchMeasurement {
    /// Seconds from the start of the launcher until all processes were started.
    pub(super) seconds: f64,
    /// The most memory of the launcher's process until then, in MiB.
    pub(super) peak_mib: f64,
    /// The part of its memory that was its own, without the program's file, which all its processes share.
    pub(super) own_mib: f64,
}

impl Launcher {
    /// Its name in results.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Launcher::FlexorAlone { .. } => "flexor launch --standalone",
            Launcher::FlexorAtMaster { .. } => "flexor launch at a master",
            Launcher::Torchrun { .. } => "torchrun --standalone",
            Launcher::DlroverAgent { .. } => "DLRover 0.6.1 agent",
        }
    }

    /// Launches the program once. The rendezvous server of a launcher is already running.
    pub(super) fn launch(&self) -> Result<LaunchMeasurement> {
        match self {
            Launcher::FlexorAlone { flexor } => {
                let mut command = flexor_launch(flexor);
                command.arg("--standalone");
                measure(command)
            }
            Launcher::FlexorAtMaster { flexor } => {
                let master = OurMaster::start(flexor, 1, Disk::AsItIs)?;
                let mut command = flexor_launch(flexor);
                command.args(["--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint", master.grpc(), "--rdzv-id", JOB]);
                measure(command)
            }
            Launcher::Torchrun { torch } => {
                let mut command = torch.command();
                command.args(["-m", "torch.distributed.run", "--standalone"]);
                measure(command)
            }
            Launcher::DlroverAgent { torch, dlrover } => {
                let master = DlroverMaster::start(dlrover, 1)?;
                let mut command = torch.command();
                command.args(["-m", "dlrover.trainer.torch.main", "--nnodes=1"]);
                command.env("PYTHONPATH", site_packages(dlrover)?).env("DLROVER_MASTER_ADDR", master.address());
                command.envs([("NODE_RANK", "0"), ("NODE_ID", "0"), ("NODE_NUM", "1")]);
                measure(command)
            }
        }
    }
}

fn flexor_launch(flexor: &Path) -> Command {
    let mut command = Command::new(flexor);
    command.arg("launch");
    command
}

/// Where another Python of the same version finds DLRover.
fn site_packages(dlrover: &Dlrover) -> Result<PathBuf> {
    let lib = dlrover.folder().join("lib");
    let pythons = fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
    let found = pythons.flatten().map(|python| python.path().join("site-packages")).find(|folder| folder.is_dir());
    found.with_context(|| format!("no packages below {}", lib.display()))
}

fn measure(mut command: Command) -> Result<LaunchMeasurement> {
    let program = Program::new()?;
    let folder = tempfile::tempdir().context("cannot make a folder for a launcher")?;
    let log = folder.path().join("log");
    let file = fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    command.arg(format!("--nproc-per-node={PROCESSES}")).arg("--no-python").args(program.words()?);
    // torchrun warns where it is not set.
    command.env("OMP_NUM_THREADS", "1").current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let begun = SystemTime::now();
    let mut launcher = RunningLauncher(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
    let output = || format!("{command:?} said\n{}", fs::read_to_string(&log).unwrap_or_default());
    let last = program.await_started(&mut launcher.0).with_context(output)?;
    let (peak_mib, own_mib) = (process_cost::peak_mib(launcher.0.id())?, process_cost::anonymous_mib(launcher.0.id())?);
    let status = launcher.0.wait()?;
    ensure!(status.success(), "the launcher ended with {status}; {}", output());
    Ok(LaunchMeasurement { seconds: last.duration_since(begun).unwrap_or_default().as_secs_f64(), peak_mib, own_mib })
}

/// Killed with its guard; the launched processes end by themselves.
struct RunningLauncher(Child);

impl Drop for RunningLauncher {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
