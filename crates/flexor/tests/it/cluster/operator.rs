//! `flexor operator` as a process in the network of a test cluster, under the service account of its overlay.

mod audit;
mod claims;
mod describe;
mod faults;
mod guard;
mod hardships;
mod jobs;
mod model;
mod plans;
mod played_master;
mod policies;
mod rights;
mod sharing;
mod strangers;
mod watch_proxy;
mod watches;

pub use guard::{Operator, turn};
pub use jobs::get;
