//! Processes of pods, identified by process id and start time.
//!
//! The kernel gives ids to new processes again. So a signal goes through a pidfd that is opened first, and only if the
//! process is then still the expected one.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flexor_agent::processes::Process;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// When process `pid` started, in clock ticks since boot; none if there is no such process.
pub fn started(pid: i32) -> Option<u64> {
    Process::read(pid).map(|process| process.started)
}

/// The id and start time of this process.
pub fn own() -> (i32, u64) {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    (pid, started(pid).unwrap_or(0))
}

/// Whether the process with this id and start time is alive. A zombie is not.
pub fn is_alive((pid, start): (i32, u64)) -> bool {
    Process::read(pid).is_some_and(|process| process.started == start && process.is_alive())
}

/// Whether some process of this id runs.
pub(crate) fn is_running(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(Process::read).is_some_and(|process| process.is_alive())
}

/// The living supervisor of a pod, found by its command line: for a pod whose status cannot be read.
pub(crate) fn supervisor_of(state_dir: &Path, uid: &str) -> Option<(i32, u64)> {
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_supervisor = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).rev().skip_while(|word| word.is_empty());
        words.next() == Some(uid.as_bytes()) && words.next() == Some(state_dir.as_os_str().as_bytes())
    };
    let found = pids.filter(is_supervisor).find_map(|pid| Some((pid, started(pid)?)));
    found.filter(|found| is_alive(*found))
}

/// A process of a pod, held by a pidfd.
#[derive(Debug)]
pub(crate) struct PodProcess {
    pub(crate) pid: i32,
    descriptor: OwnedFd,
}

impl PodProcess {
    /// The supervisor of a pod; none if it has ended.
    pub(crate) fn supervisor(supervisor: (i32, u64)) -> Option<Self> {
        let process = Self::open(supervisor.0).ok()?;
        is_alive(supervisor).then_some(process)
    }

    /// A child process of a pod's supervisor.
    pub(crate) fn program(supervisor: (i32, u64), pid: i32) -> Option<Self> {
        let process = Self::open(pid).ok()?;
        let is_child = Process::read(pid)?.parent == supervisor.0 && is_alive(supervisor);
        is_child.then_some(process)
    }

    /// The process that has this id now, whichever it is.
    pub(crate) fn open(pid: i32) -> Result<Self, Errno> {
        let id = Pid::from_raw(pid.max(0)).ok_or(Errno::SRCH)?;
        Ok(Self { pid, descriptor: pidfd_open(id, PidfdFlags::NONBLOCK)? })
    }

    /// Sends a signal. Returns whether the process exists.
    pub(crate) fn send(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.descriptor, signal).is_ok()
    }

    /// Sends SIGKILL. Returns whether the process exists.
    pub(crate) fn kill(&self) -> bool {
        self.send(Signal::KILL)
    }

    /// The pidfd, which becomes readable when the process ends.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_same_id_and_another_start_time_is_another_process() {
        let (pid, start) = own();
        assert!(is_alive((pid, start)) && !is_alive((pid, start + 1)) && !is_alive((-1, 0)));
    }
}
