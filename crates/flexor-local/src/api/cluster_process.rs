//! The process that runs the cluster of a state directory, found through its socket.
//!
//! The kernel names the listening process to each client, even if that process answers nothing. A pidfd holds the process,
//! so a signal never reaches another one that got the same process id.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::socket_path::SocketPath;
use crate::readiness::readable;
use crate::state_dir::StateDir;

/// A process that runs a cluster.
#[derive(Debug)]
pub struct ClusterProcess {
    pid: i32,
    descriptor: AsyncFd<OwnedFd>,
}

impl ClusterProcess {
    /// The process that runs the cluster of a state directory; none if no process listens there. Has to be called inside
    /// a runtime.
    ///
    /// # Errors
    ///
    /// The directory belongs to another user, or the system refuses.
    pub async fn of(state_dir: &StateDir) -> io::Result<Option<Self>> {
        state_dir.check_owner().map_err(io::Error::other)?;
        // If the process was replaced between the two lookups, another one may have its id.
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

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends SIGTERM; a second one makes it hurry. SIGCONT lets a stopped process receive it.
    pub fn terminate(&self) {
        // It may have ended meanwhile, which is just as good.
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::TERM);
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::CONT);
    }

    /// Kills it. Its pods go on.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(self.descriptor.as_fd(), Signal::KILL);
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        let _ = self.descriptor.readable().await;
    }
}

/// The process that listens on the socket of a state directory.
async fn listener(state_dir: &StateDir) -> io::Result<Option<i32>> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    let connected = match SocketPath::of(&state_dir.socket()) {
        Ok(socket) => UnixStream::connect(socket.path()).await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(stream) => Ok(stream.peer_cred()?.pid()),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused | NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
