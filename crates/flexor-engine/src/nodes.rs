//! The ends of nodes: what kind of end one was, and whether the node is started again.
//!
//! A library of rules for whoever looks after nodes, the controller above all. [`classify`] reads what was seen of an
//! end; [`decide`] says what follows: relaunch (when, with how much memory, whether it counts) or not, with the reason.
//! The one principle: losing infrastructure is free, errors of the program are bounded.
//!
//! There is no memory here: [`NodeHistory`] is the owner's to keep, and to write down *before* it acts. It is also not
//! for deciding whether the job still wants the node: a job that ends, shrinks or is suspended does not ask.

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
pub(crate) use classify::first_words;
pub use decide::{Decision, Final, Outcome, Relaunch, decide};
pub use exit::{Cost, Exit, ExitKind};
pub use history::NodeHistory;
pub use observed_exit::{Deletion, ObservedExit, ProgramExit, Verdict};
pub use rules::{Rules, memory_asked};
