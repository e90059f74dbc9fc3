//! What names a process for good: its id and when it started. A signal goes by a descriptor that is taken first, and only
//! if the process is then still who it should be, so that none ever reaches another one.

use std::os::fd::OwnedFd;

use flexor_agent::processes::Process;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// When process `pid` started, in the kernel's ticks since boot; nothing for one that is gone.
pub fn started(pid: i32) -> Option<u64> {
    Process::read(pid).map(|process| process.started)
}

/// This process: its id and when it started.
pub fn own() -> (i32, u64) {
    let pid = i32::try_from(std::process::id()).unwrap_or(0);
    (pid, started(pid).unwrap_or(0))
}

/// Whether a process is the one that it was. One that has ended and was not waited for is not.
pub fn is_alive((pid, start): (i32, u64)) -> bool {
    Process::read(pid).is_some_and(|process| process.started == start && process.is_alive())
}

/// A process of a pod, held by a descriptor.
#[derive(Debug)]
pub(crate) struct PodProcess {
    pub(crate) pid: i32,
    descriptor: OwnedFd,
}

impl PodProcess {
    /// The supervisor of a pod, unless another process has its number by now.
    pub(crate) fn supervisor(supervisor: (i32, u64)) -> Option<Self> {
        let held = Self::open(supervisor.0).ok()?;
        is_alive(supervisor).then_some(held)
    }

    /// A program of the pod that `parent` looks after.
    pub(crate) fn program(parent: (i32, u64), pid: i32) -> Option<Self> {
        let held = Self::open(pid).ok()?;
        let is_its_child = Process::read(pid)?.parent == parent.0 && is_alive(parent);
        is_its_child.then_some(held)
    }

    /// Whichever process has this number now.
    pub(crate) fn open(pid: i32) -> Result<Self, Errno> {
        let id = Pid::from_raw(pid.max(0)).ok_or(Errno::SRCH)?;
        Ok(Self { pid, descriptor: pidfd_open(id, PidfdFlags::NONBLOCK)? })
    }

    /// Sends a signal; whether it was there.
    pub(crate) fn send(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.descriptor, signal).is_ok()
    }

    /// Kills it; whether it was there.
    pub(crate) fn kill(&self) -> bool {
        self.send(Signal::KILL)
    }

    /// What becomes readable when it ends.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_of_its_number_would_not_be_it() {
        let (pid, start) = own();
        assert!(is_alive((pid, start)) && !is_alive((pid, start + 1)) && !is_alive((-1, 0)));
    }
}
