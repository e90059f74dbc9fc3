//! What every server of ours does with signals and limits.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Waits for the signals that ask a process to end.
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

/// From here on SIGTERM and SIGINT do not end the process but can be waited for. To be called inside a runtime.
pub fn terminated() -> anyhow::Result<Termination> {
    let watch = |kind| signal(kind).context("signals cannot be watched");
    Ok(Termination { terminate: watch(SignalKind::terminate())?, interrupt: watch(SignalKind::interrupt())? })
}

impl Termination {
    /// Until one of them comes; how the process should then end.
    pub async fn wait(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Success,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}

/// Lets this process have as many connections as the machine allows. Where that fails the smaller limit stays.
pub fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
