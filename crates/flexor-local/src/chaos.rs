//! Harm on purpose: what `flexor run --chaos` does to the pods, the masters and the disk of a laptop cluster.
//!
//! A seed fixes a list of acts ([`plan()`]), which is written down ([`Script`]) and can be done again. A [`Injector`] does them
//! one after the other, each at its time, and undoes in the end what does not pass by itself. What follows from an act is
//! for the controller and the master to see to; they do not know that it was on purpose. Nothing here is on without
//! `--chaos`, and nothing but this cluster's own pods is ever touched.

mod fault;
mod injector;
mod master_faults;
mod plan;
mod process;
mod random;
mod script;
mod sparing;
mod write_faults;

pub use self::fault::{Fault, ScheduledFault, SlotRef};
pub use self::injector::{Injector, Tally};
pub use self::master_faults::MasterFaults;
pub use self::plan::{Crew, Rate, RateError, plan};
pub use self::script::{Script, ScriptError};
pub use self::write_faults::WriteFaults;
