//! How a process of a job reaches the job's master, and reconnects when the connection breaks.
//!
//! [`Upstream`] is the master's address together with the job's token. [`Reconnect`] paces the attempts of a loop that
//! keeps a connection; every such loop of this project uses it, so there is one back-off policy. What travels over a
//! connection is the business of the loops: the sidecar's link, the launcher's and the worker's session, the sessions
//! and the map follower of parameter servers, the laptop cluster's master feed.

mod backoff;
mod reconnect;
pub mod token_file;
mod upstream;

pub use self::{
    backoff::{Backoff, Jitter},
    reconnect::Reconnect,
    token_file::TokenFileError,
    upstream::{AddressError, ConnectError, TokenSource, Upstream},
};
