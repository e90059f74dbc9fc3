//! Tests that start real control planes.

mod again;
mod breaking;
mod missing;
mod nodes;
mod ownership;
mod pods;
mod stages;
