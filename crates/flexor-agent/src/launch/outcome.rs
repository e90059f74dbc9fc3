//! How taking part in a job ends.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use flexor_model::Reason;
use nix::sys::signal::Signal;
use thiserror::Error;

use super::place::Bar;
use crate::workers::{FailureReport, LogError, StartError};

/// Why a node cannot take part.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The workers cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Their output has nowhere to go.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The store of a round cannot be served to them.
    #[error("cannot serve the store to the workers on a port of 127.0.0.1: {0}")]
    Store(#[source] io::Error),
    /// The socket that tells them of the world cannot be had.
    #[error("cannot open the workers' socket {}: {source}; set TMPDIR to a folder of yours with a short path", path.display())]
    Socket {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LaunchError {
    /// Whether it is the program that cannot be started, and not the machine that will not.
    pub fn is_of_the_program(&self) -> bool {
        match self {
            LaunchError::Start(error) => error.is_of_the_program(),
            LaunchError::Logs(_) | LaunchError::Store(_) | LaunchError::Socket { .. } => false,
        }
    }
}

/// The end of a node's part in a job.
#[derive(Debug)]
pub enum Over {
    /// The program has ended well everywhere.
    Finished,
    /// It had, before this node came.
    FinishedBefore,
    /// The run was closed: the program failed too often, or somebody closed it.
    Closed {
        /// Why, as the master says it.
        cause: String,
        /// What went wrong on this node last, if anything did.
        report: Option<Box<FailureReport>>,
    },
    /// Another node has this one's name, or the master has done with it.
    Fenced(String),
    /// The master serves another job than the one that was asked for.
    OtherJob(String),
    /// The master wants a token that this node does not have.
    Token(String),
    /// There was no world for it in all this time.
    NoWorld {
        /// So long.
        within: Duration,
        /// What it waited for at the end.
        waited_for: String,
        /// What went wrong on this node last, if anything did.
        report: Option<Box<FailureReport>>,
    },
    /// The launcher was told to end.
    Signal(Signal),
}

impl Over {
    pub(super) fn closed(cause: String) -> Self {
        if cause.starts_with(Reason::RunFinished.as_str()) {
            return Over::Finished;
        }
        Over::Closed { cause, report: None }
    }

    /// The run was closed before this node could take part.
    pub(super) fn before(cause: String) -> Self {
        match Over::closed(cause) {
            Over::Finished => Over::FinishedBefore,
            other => other,
        }
    }

    /// Where an end has to tell what went wrong on the node: nothing where it is none that has to.
    pub(super) fn report_mut(&mut self) -> Option<&mut Option<Box<FailureReport>>> {
        match self {
            Over::Closed { report, .. } | Over::NoWorld { report, .. } => Some(report),
            Over::Finished
            | Over::FinishedBefore
            | Over::Fenced(_)
            | Over::OtherJob(_)
            | Over::Token(_)
            | Over::Signal(_) => None,
        }
    }
}

impl From<Bar> for Over {
    fn from(bar: Bar) -> Self {
        match bar {
            Bar::Fenced(cause) => Over::Fenced(cause),
            Bar::OtherJob(cause) => Over::OtherJob(cause),
            Bar::Token(cause) => Over::Token(cause),
        }
    }
}
