//! The verbs of another terminal, against laptop clusters with real processes.

mod describing;
mod homes;
pub mod laptop;
mod logs;
mod refusals;
mod tables;
mod watching;
mod wishes;
