//! What processes of ours do with signals and limits.

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

/// From here on SIGTERM and SIGINT end the process after the files were given up that it has begun and not finished.
pub fn leave_no_halves() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut termination = {
        let _inside = runtime.enter();
        terminated()?
    };
    std::thread::spawn(move || {
        let exit = match runtime.block_on(termination.wait()) {
            // What was asked for is not done.
            Exit::Success => Exit::Failure,
            other => other,
        };
        let _given_up = flexor_data::output::discard_unfinished();
        std::process::exit(exit.code().into());
    });
    Ok(())
}

/// Lets this process have as many connections as the machine allows. Where that fails the smaller limit stays.
pub fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
