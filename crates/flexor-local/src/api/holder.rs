//! The process that runs the cluster of a folder, found through its socket.
//!
//! The kernel tells whoever connects who listens, also when that process answers nothing. It is held by a descriptor of
//! its own, so that a signal never reaches another process that was given its number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::socket::Reach;
use crate::readiness::readable;
use crate::state_dir::StateDir;

/// A process that runs a cluster.
#[derive(Debug)]
pub struct Holder {
    pid: i32,
    descriptor: AsyncFd<OwnedFd>,
}

impl Holder {
    /// Who runs the cluster in a folder; nobody, where no one listens there. To be called inside a runtime.
    ///
    /// # Errors
    ///
    /// The folder is somebody else's, or the system refuses.
    pub async fn of(state_dir: &StateDir) -> io::Result<Option<Self>> {
        // Where it was replaced between the two looks the number might be another process's by now.
        for _ in 0..3 {
            let Some(pid) = listener(state_dir).await? else { return Ok(None) };
            let Some(raw) = Pid::from_raw(pid) else { return Ok(None) };
            let Ok(descriptor) = pidfd_open(raw, PidfdFlags::NONBLOCK) else { continue };
            if listener(state_dir).await? == Some(pid) {
                return Ok(Some(Self { pid, descriptor: readable(descriptor)? }));
            }
        }
        Ok(None)
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks it to end; a second time asks it to hurry. One that is stopped goes on, to hear of it.
    pub fn ask_to_end(&self) {
        // It may have ended meanwhile, which is what is wanted.
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::TERM);
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::CONT);
    }

    /// Kills it. Its pods live on.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::KILL);
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let _ = self.descriptor.readable().await;
    }
}

/// The process that listens on the socket of a folder.
async fn listener(state_dir: &StateDir) -> io::Result<Option<i32>> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let connected = match Reach::of(&state_dir.socket()) {
        Ok(reach) => UnixStream::connect(reach.path()).await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(stream) => Ok(stream.peer_cred()?.pid()),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused | NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
