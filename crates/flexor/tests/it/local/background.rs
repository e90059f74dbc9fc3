//! `flexor local`: a cluster in the background, with real processes.
//!
//! A guard ends it, and its pods, by their ids.

mod cluster;
mod comings;
mod deep_homes;
mod ends;
mod kills;
