//! How a node's part in a job ends.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use flexor_model::Reason;
use nix::sys::signal::Signal;
use thiserror::Error;

use super::node_state::Rejection;
use crate::processes::ProgramError;
use crate::workers::{FailureReport, GroupStartError, LogError};

/// Why a node cannot take part.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The workers cannot be started.
    #[error(transparent)]
    Start(#[from] GroupStartError),
    /// The workers' output has nowhere to go.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The store of a round cannot be served to the workers.
    #[error("cannot serve the store to the workers on a port of 127.0.0.1: {0}")]
    Store(#[source] io::Error),
    /// The world socket cannot be opened.
    #[error("cannot open the workers' socket {}: {source}; set TMPDIR to a folder of yours with a short path", path.display())]
    Socket { path: PathBuf, source: io::Error },
}

impl LaunchError {
    /// What is wrong with the program, if it is at fault and not the machine.
    pub fn of_program(&self) -> Option<&ProgramError> {
        match self {
            LaunchError::Start(error) => error.of_program(),
            LaunchError::Logs(_) | LaunchError::Store(_) | LaunchError::Socket { .. } => None,
        }
    }
}

/// The end of a node's part in a job.
#[derive(Debug)]
pub enum LaunchEnd {
    /// The program has succeeded on all nodes.
    Finished,
    /// The program had succeeded before this node came.
    FinishedBefore,
    /// The run was closed: the program failed too often, or a user closed it.
    Closed {
        /// As the master words it.
        cause: String,
        /// The last failure on this node, if there was one.
        report: Option<Box<FailureReport>>,
    },
    /// The program failed in its first start, and another one would end the same way.
    Refused { exit_code: i32, report: Option<Box<FailureReport>> },
    /// Another process has this node's name, or the master has removed the node.
    Fenced(String),
    /// The master serves another job than the requested one.
    OtherJob(String),
    /// The master requires a token that this node does not have.
    Token(String),
    /// The node was in no world within its time.
    NoWorld {
        within: Duration,
        /// What it waited for at the end.
        waited_for: String,
        /// The last failure on this node, if there was one.
        report: Option<Box<FailureReport>>,
    },
    /// A signal ended the launcher.
    Signal(Signal),
}

impl LaunchEnd {
    /// The end of a node whose run was closed for this cause.
    pub(super) fn closed(cause: String) -> Self {
        if cause.starts_with(Reason::RunFinished.as_str()) {
            return LaunchEnd::Finished;
        }
        LaunchEnd::Closed { cause, report: None }
    }

    /// The run was closed before this node could take part.
    pub(super) fn closed_before(cause: String) -> Self {
        match LaunchEnd::closed(cause) {
            LaunchEnd::Finished => LaunchEnd::FinishedBefore,
            other => other,
        }
    }

    /// Where the failure report of the node goes; none where this end carries no report.
    pub(super) fn report_mut(&mut self) -> Option<&mut Option<Box<FailureReport>>> {
        match self {
            LaunchEnd::Closed { report, .. }
            | LaunchEnd::Refused { report, .. }
            | LaunchEnd::NoWorld { report, .. } => Some(report),
            LaunchEnd::Finished
            | LaunchEnd::FinishedBefore
            | LaunchEnd::Fenced(_)
            | LaunchEnd::OtherJob(_)
            | LaunchEnd::Token(_)
            | LaunchEnd::Signal(_) => None,
        }
    }
}

impl From<Rejection> for LaunchEnd {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Fenced(cause) => LaunchEnd::Fenced(cause),
            Rejection::OtherJob(cause) => LaunchEnd::OtherJob(cause),
            Rejection::Token(cause) => LaunchEnd::Token(cause),
        }
    }
}
