//! Who wants a pod to end before its containers have: whoever sends SIGTERM, and the end of its owner.

use std::io;
use std::os::fd::OwnedFd;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why a pod ends before its containers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum StopRequest {
    /// Somebody wants it to end, in its own time.
    #[error("somebody told it to end")]
    End,
    /// Nobody is there any more who wants it.
    #[error("whoever ran its cluster is gone")]
    EndAtOnce,
}

impl StopRequest {
    /// The word for it in the pod's status, one that means that nothing is wrong with the program.
    pub(super) fn reason(self) -> &'static str {
        match self {
            StopRequest::End => "Terminated",
            StopRequest::EndAtOnce => "NodeShutdown",
        }
    }
}

/// What is heard.
pub(super) struct StopRequests {
    term: Signal,
    owner: Option<pipe::Receiver>,
}

impl StopRequests {
    /// From here on SIGTERM does not end this process but is a wish.
    pub(super) fn hear(owner: Option<OwnedFd>) -> io::Result<Self> {
        let term = signal(SignalKind::terminate())?;
        Ok(Self { term, owner: owner.map(pipe::Receiver::from_owned_fd).transpose()? })
    }

    /// The next wish.
    pub(super) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.term.recv() => StopRequest::End,
            () = gone(&mut self.owner) => StopRequest::EndAtOnce,
        }
    }

    /// Waits until there is no more time for an end that has begun: told twice, or nobody is there any more.
    pub(super) async fn hurry(&mut self, told_before: bool) {
        let desired = self.next().await;
        if desired == StopRequest::End && !told_before {
            self.next().await;
        }
    }
}

/// Waits until the owner is gone. For ever, where there is none.
async fn gone(owner: &mut Option<pipe::Receiver>) {
    match owner {
        // Nothing is ever written to it.
        Some(pipe) => while matches!(pipe.read(&mut [0; 16]).await, Ok(1..)) {},
        None => std::future::pending().await,
    }
}
