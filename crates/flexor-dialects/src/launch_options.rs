//! The command line of `flexor launch`: `torchrun`'s, with `dlrover-run`'s options where they mean the same.
//!
//! [`parse`] takes the arguments and the environment (`PET_*`, as torchrun reads it) and gives typed
//! [`LaunchOptions`], or everything that is wrong with them. The options stand in one table ([`all`]), from which
//! parsing, help and reference pages follow: what each means here, what is taken without effect and why, what is
//! refused and why. The program to launch comes last, and its arguments are left alone.
//!
//! Nothing is started, looked up or counted here: how many devices a machine has is the caller's to say.

mod address;
mod argv;
mod given;
mod options;
mod output;
mod parse;
mod processes;
mod program;
mod python_number;
mod rendezvous;
mod rendezvous_conf;
mod signals;
mod spec;
mod table;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use options::{LaunchOptions, Nodes, Said};
pub use output::{OutputOptions, StreamChoice, Streams};
pub use parse::{Asked, Parsed, parse};
pub use processes::{Device, Processes};
pub use program::{Program, ProgramKind};
pub use rendezvous::Rendezvous;
pub use rendezvous_conf::RendezvousConf;
pub use signals::ForwardedSignal;
pub use spec::{Fate, Kind, OptionSpec, Origin};
pub use table::all;
