//! A simulated job under virtual time, sized by the [`super::Sizer`] or by DLRover's rules.
//!
//! Workers and servers are queues that are played event by event, with random service times; nothing in them is shared
//! with the model of the sizer, which sees only samples, as it does of a real job. Everything else goes second by second:
//! pods start and find room or none, tables grow and pods are killed when they exceed their memory, the load drifts. A run
//! is decided by its seed.

mod best;
mod dlrover;
mod pods;
mod queues;
mod random;
mod run;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod world;

pub use dlrover::DlroverRules;
pub use run::{Policy, Run, run};
pub use shape::{JobShape, Table};
pub use table::{Figures, table};
