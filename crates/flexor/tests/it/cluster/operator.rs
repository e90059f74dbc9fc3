//! `flexor operator` as a process in the network of a test cluster, under the service account of its overlay.

mod claims;
mod describe;
mod faults;
mod guard;
mod hardships;
mod jobs;
mod policies;
mod rights;
mod sharing;
mod strangers;

pub use guard::{Operator, turn};
pub use jobs::get;
