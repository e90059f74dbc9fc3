//! `flexor pod`: the supervisor of one pod of the laptop cluster. A hidden command that only the cluster starts.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use anyhow::Context;
use flexor_agent::workers::Shim;
use flexor_local::limits;
use flexor_local::state_dir::StateDir;
use flexor_local::supervisor::{self, SupervisorOptions};
use listenfd::ListenFd;

use crate::launch::SHIM;
use crate::output;

/// Name of the command.
pub const WORD: &str = "pod";

/// Runs a pod. Arguments are the state directory, the pod's UID, and a third one if standard input is the pipe to the
/// pod's owner.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    match try_run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {}", output::with_causes(&error)));
            ExitCode::from(3)
        }
    }
}

fn try_run(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let (state_dir, uid) =
        words.next().zip(words.next()).context("only the cluster starts pods; `flexor run` starts a cluster")?;
    let uid = uid.into_string().ok().context("the pod's uid")?;
    // Signals of the cluster's terminal do not reach a session of its own.
    let _ = nix::unistd::setsid();
    let owner = words.next().map(|_| std::io::stdin().as_fd().try_clone_to_owned()).transpose()?;
    let mut passed = ListenFd::from_env();
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for index in 0..passed.len() {
        sockets.extend(passed.take_tcp_listener(index)?.map(OwnedFd::from));
    }
    let shim = Shim::new(std::env::current_exe().context("cannot find this program")?, [SHIM]);
    let state_dir = cluster(state_dir);
    let (folder, limits) = (state_dir.pod(&uid), limits::of_state_dir(&state_dir));
    // Programs are killed when the thread that started them ends, so the main thread runs everything.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(supervisor::run(SupervisorOptions { folder, shim, sockets, owner, limits }))?;
    Ok(())
}

/// The state directory of the cluster, with injected write faults if the cluster runs with `--chaos`.
fn cluster(state_dir: OsString) -> StateDir {
    let state_dir = StateDir::at(state_dir);
    if std::env::var_os(flexor_model::env::FAULTS.name).is_some() { state_dir.with_write_faults() } else { state_dir }
}
