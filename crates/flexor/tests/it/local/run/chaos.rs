//! `flexor run --chaos`: jobs that are harmed on purpose end well, and what was done to them can be done again.

mod refusals;
mod scripts;
mod seeds;
mod servers;
