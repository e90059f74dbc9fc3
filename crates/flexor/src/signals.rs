//! Signal handling and process limits of Flexor's own processes.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Receives SIGTERM and SIGINT, and those of a terminal where they are handled.
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    quit: Option<Signal>,
}

/// Handles SIGTERM and SIGINT from here on; they no longer end the process. Must be called inside a runtime.
pub fn terminated() -> anyhow::Result<Termination> {
    Ok(Termination {
        terminate: watch(SignalKind::terminate())?,
        interrupt: watch(SignalKind::interrupt())?,
        hangup: None,
        quit: None,
    })
}

/// Handles SIGHUP and SIGQUIT too: the terminal is gone, or its user wants the end. Under `nohup` SIGHUP stays ignored.
pub fn terminated_or_hung_up() -> anyhow::Result<Termination> {
    let ignored = ignored_signals();
    let unless_ignored = |kind: SignalKind| match (ignored >> (kind.as_raw_value() - 1)) & 1 {
        0 => watch(kind).map(Some),
        _ => Ok(None),
    };
    let (hangup, quit) = (unless_ignored(SignalKind::hangup())?, unless_ignored(SignalKind::quit())?);
    Ok(Termination { hangup, quit, ..terminated()? })
}

fn watch(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot watch signals")
}

/// The signals that this process ignores, a bit for each; none where /proc is missing.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The next of a signal that is handled; never, of one that is not.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

impl Termination {
    /// Waits for a signal. Returns the exit code that fits it.
    pub async fn wait(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Success,
            _ = self.interrupt.recv() => Exit::Interrupted,
            () = next(&mut self.hangup) => {
                // A closed terminal sends it more than once, and a second signal would cut the grace period.
                self.hangup = None;
                Exit::Success
            }
            () = next(&mut self.quit) => Exit::Interrupted,
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
