//! Fault injection: what `flexor run --chaos` does to the pods, the masters and the disk of a laptop cluster.
//!
//! A seed fixes a list of faults ([`plan()`]), which is written down ([`Script`]) and can be replayed. An [`Injector`]
//! injects them one after the other, each at its time, and undoes in the end those that do not pass by themselves.
//! Controller and master see only the consequences; they do not know of the injection. Nothing here runs without
//! `--chaos`, and only pods of this cluster are ever touched.

mod fault;
mod injector;
mod master_faults;
mod plan;
mod process;
mod random;
mod script;
mod server_redundancy;
mod write_faults;

pub use self::fault::{Fault, ScheduledFault, SlotRef};
pub use self::injector::{FaultTally, Injector};
pub use self::master_faults::MasterFaults;
pub use self::plan::{FaultTarget, Rate, RateError, plan};
pub use self::script::{Script, ScriptError};
pub use self::write_faults::WriteFaults;
