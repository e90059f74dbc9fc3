//! The keeper: ends what our programs have started when we are killed and cannot do it ourselves.
//!
//! The kernel ends our programs with us, but not what they have started. So a second process of this binary, which does
//! nothing else, waits for our end on a pipe whose other end only we have, and then kills every process that carries a
//! [`Mark`] of ours. When we end in good order nothing is left to kill, and it ends too.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};

use super::lineage::Mark;
use super::tree::Process;

/// How long it tries to find the last one.
const LONGEST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A keeper at work. It takes its end for ours.
#[derive(Debug)]
pub struct Keeper {
    _ours: ChildStdin,
}

impl Keeper {
    /// Starts a keeper: `program` with `args`, which lead to [`keep`]. To be called before anything is supervised, so that
    /// it is not taken for one of the programs.
    ///
    /// # Errors
    ///
    /// The system does not let us start it.
    pub fn start(program: OsString, args: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(args).arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What is sent to all of a terminal is not for the one who cleans up.
        command.process_group(0);
        let mut child = command.spawn()?;
        let ours = child.stdin.take().ok_or_else(|| io::Error::other("the keeper has no pipe"))?;
        Ok(Self { _ours: ours })
    }
}

/// What the keeper does. To be called at the very start of a process, before it has threads.
pub fn keep(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let supervisor = args.into_iter().next().and_then(|pid| pid.to_str()?.parse::<u32>().ok());
    let Some(supervisor) = supervisor else { return ExitCode::from(2) };
    // If whoever started our supervisor ends all that is left of it, that must not end us before we have done the same.
    Mark::take_off();
    let not_ours: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM].into_iter().collect();
    _ = not_ours.thread_block();
    // There is nothing to read but the end.
    _ = io::stdin().read(&mut [0]);
    let until = Instant::now() + LONGEST;
    while kill_all_of(&[supervisor]) > 0 && Instant::now() < until {
        std::thread::sleep(LOOK_AGAIN);
    }
    ExitCode::SUCCESS
}

/// Kills what supervisors that are gone have left behind: whatever carries a mark of one of them.
pub fn kill_what_they_left(supervisors: &[u32]) {
    kill_all_of(supervisors);
}

/// Kills every process that carries a mark of one of these. How many there were.
fn kill_all_of(supervisors: &[u32]) -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let marked = pids.filter(|pid| Mark::of(*pid).is_some_and(|mark| supervisors.contains(&mark.supervisor())));
    let living = marked.filter_map(Process::read).filter(Process::lives);
    living.filter(|process| kill(process.id(), Signal::SIGKILL).is_ok()).count()
}
