//! The keeper: a second process of this binary that kills the descendants of our programs when we are killed ourselves.
//!
//! The kernel kills our programs together with us, but not the processes that they have started. The keeper waits for our
//! end on a pipe whose other end only we hold, and then kills every process that carries a [`ProcessTag`] of ours. After
//! an orderly end it finds nothing to kill, and ends too.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};

use super::process_tag::ProcessTag;
use super::tree::Process;

/// How long the keeper tries to kill the last process.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// A running keeper. Dropping this makes the keeper act as if we had ended.
#[derive(Debug)]
pub struct Keeper {
    _pipe: ChildStdin,
}

impl Keeper {
    /// Starts a keeper: `program` with `args`, which lead to [`run_keeper`]. Call it before any program is supervised,
    /// or the keeper counts as one of the programs.
    ///
    /// # Errors
    ///
    /// The system refuses to start it.
    pub fn start(program: OsString, args: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(args).arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals from the terminal must not reach the process that cleans up.
        command.process_group(0);
        let mut child = command.spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::other("the keeper has no pipe"))?;
        Ok(Self { _pipe: pipe })
    }
}

/// The main function of the keeper. Call it at the very start of a process, before it has threads.
pub fn run_keeper(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let supervisor = args.into_iter().next().and_then(|pid| pid.to_str()?.parse::<u32>().ok());
    let Some(supervisor) = supervisor else { return ExitCode::from(2) };
    // An outer supervisor kills every process with its tag. The keeper must outlive that, to do its own work.
    ProcessTag::clear_own();
    let ignored: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM].into_iter().collect();
    _ = ignored.thread_block();
    // The pipe carries no data: a read returns when the supervisor has ended.
    _ = io::stdin().read(&mut [0]);
    let until = Instant::now() + KILL_TIMEOUT;
    while kill_tagged(&[supervisor]) > 0 && Instant::now() < until {
        std::thread::sleep(KILL_INTERVAL);
    }
    ExitCode::SUCCESS
}

/// Kills the processes that supervisors have left behind: all that carry a tag of one of them.
pub fn kill_orphans_of(supervisors: &[u32]) {
    kill_tagged(supervisors);
}

/// Kills every process that carries a tag of one of these supervisors. Returns their number.
fn kill_tagged(supervisors: &[u32]) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let tagged = pids.filter(|pid| ProcessTag::of(*pid).is_some_and(|tag| supervisors.contains(&tag.supervisor())));
    let living = tagged.filter_map(Process::read).filter(Process::is_alive);
    living.filter(|process| kill(process.id(), Signal::SIGKILL).is_ok()).count()
}
