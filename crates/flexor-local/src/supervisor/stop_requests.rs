//! Requests that end a pod before its containers have: SIGTERM, and the end of the cluster process that owns it.

use std::io;
use std::os::fd::OwnedFd;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum StopRequest {
    /// SIGTERM: the pod ends within its grace period.
    #[error("the pod received SIGTERM")]
    End,
    /// The owner's end of the pipe is closed: the pod ends at once.
    #[error("the cluster process that owned the pod is gone")]
    EndAtOnce,
}

impl StopRequest {
    /// The reason in the pod's status. It is one that does not blame the program.
    pub(super) fn reason(self) -> &'static str {
        match self {
            StopRequest::End => "Terminated",
            StopRequest::EndAtOnce => "NodeShutdown",
        }
    }
}

pub(super) struct StopRequests {
    term: Signal,
    owner: Option<pipe::Receiver>,
}

impl StopRequests {
    /// Starts listening. From here on SIGTERM does not end this process.
    pub(super) fn listen(owner: Option<OwnedFd>) -> io::Result<Self> {
        let term = signal(SignalKind::terminate())?;
        Ok(Self { term, owner: owner.map(pipe::Receiver::from_owned_fd).transpose()? })
    }

    pub(super) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.term.recv() => StopRequest::End,
            () = gone(&mut self.owner) => StopRequest::EndAtOnce,
        }
    }

    /// Waits until an end that has begun must be cut short: at a second SIGTERM, or when the owner is gone.
    pub(super) async fn hurry(&mut self, was_requested: bool) {
        let request = self.next().await;
        if request == StopRequest::End && !was_requested {
            self.next().await;
        }
    }
}

/// Waits until the owner is gone; for ever where there is none.
async fn gone(owner: &mut Option<pipe::Receiver>) {
    match owner {
        // The owner never writes to the pipe.
        Some(pipe) => while matches!(pipe.read(&mut [0; 16]).await, Ok(1..)) {},
        None => std::future::pending().await,
    }
}
