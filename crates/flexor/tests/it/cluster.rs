//! Tests of the manifests on a real API server.

mod definitions;
mod edl_page;
mod examples;
pub mod installed;
mod listings;
mod manifests;
mod mutations;
mod operator;
mod overlays;
mod paddle;
mod verdicts;
