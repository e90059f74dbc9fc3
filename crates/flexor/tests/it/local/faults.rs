//! Tests of the fault list: killed masters, sidecars and agents, full disks, clock jumps, and peers that send garbage.
//!
//! Masters and sidecars are the real program in processes of their own. An agent is a thread that speaks torchrun's
//! rendezvous protocol over a real socket.

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
mod strangers;
mod tokens;
mod two_masters;
mod worlds;
