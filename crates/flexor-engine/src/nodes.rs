//! The exits of pods: what kind of exit one was, and whether the pod is relaunched.
//!
//! A library of rules for the controller. [`classify`] reads what was observed of an exit. [`decide`] says what follows:
//! relaunch (when, with how much memory, charged or not) or not, with the reason. The principle: losses of infrastructure
//! are free, errors of the program are bounded.
//!
//! It has no memory: the controller stores [`NodeHistory`] before it acts. It does not decide whether the job still needs
//! the pod: a job that ends, shrinks or is suspended does not ask.

mod back_off;
mod classify;
mod decide;
mod exit;
mod history;
mod observed_exit;
#[cfg(test)]
mod properties;
mod rules;
#[cfg(test)]
mod tests;

pub use back_off::BackOff;
pub use classify::classify;
pub(crate) use classify::is_consequence;
pub use decide::{Decision, Final, Outcome, Relaunch, decide};
pub use exit::{Cost, Exit, ExitKind};
pub use history::NodeHistory;
pub use observed_exit::{Deletion, ObservedExit, ProgramExit};
pub use rules::{Rules, memory_asked};
