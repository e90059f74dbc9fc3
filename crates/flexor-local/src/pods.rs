//! Pods as data: what one is to run, with everything in it a literal, and what has become of it.

pub mod addresses;
pub mod checkpoint_folder;
pub mod environment;
pub mod expansion;
pub mod folder;
pub mod interpreter;
pub mod plan;
pub mod preflight;
pub mod status;
pub mod volumes;
