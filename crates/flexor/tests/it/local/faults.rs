//! The fault list: masters, sidecars and agents that are killed, disks that fill, clocks that jump, peers that talk
//! nonsense. Everything but the agents is the real program in a process of its own; an agent is a thread that says over
//! a real socket what torchrun's rendezvous says.

mod agent;
mod clock_jumps;
pub mod deadline;
mod floods;
mod full_disk;
mod garbage;
pub mod http;
mod killed_master;
mod killed_nodes;
mod log_volume;
pub mod master;
mod node;
mod pickles;
pub mod process;
pub mod random;
mod refused_starts;
mod signals;
pub mod store_client;
mod tokens;
mod two_masters;
mod worlds;
