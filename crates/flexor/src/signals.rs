//! Signal handling and process limits of Flexor's own processes.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Receives SIGTERM and SIGINT.
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

/// Handles SIGTERM and SIGINT from here on; they no longer end the process. Must be called inside a runtime.
pub fn terminated() -> anyhow::Result<Termination> {
    let watch = |kind| signal(kind).context("cannot watch signals");
    Ok(Termination { terminate: watch(SignalKind::terminate())?, interrupt: watch(SignalKind::interrupt())? })
}

impl Termination {
    /// Waits for a signal. Returns the exit code that fits it.
    pub async fn wait(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Success,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}

/// Removes unfinished output files on SIGTERM and SIGINT, and then exits.
pub fn remove_unfinished_on_exit() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut termination = {
        let _inside = runtime.enter();
        terminated()?
    };
    std::thread::spawn(move || {
        let exit = match runtime.block_on(termination.wait()) {
            // The command has not finished.
            Exit::Success => Exit::Failure,
            other => other,
        };
        let _discarded = flexor_data::output::discard_unfinished();
        std::process::exit(exit.code().into());
    });
    Ok(())
}

/// Raises the limit of open files to the hard limit. Keeps the lower limit if that fails.
pub fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
