//! Tests that start real control planes.

mod audit;
mod control_plane_faults;
mod nodes;
mod ownership;
mod pods;
mod stages;
mod start_failures;
