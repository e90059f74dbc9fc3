//! The sizes of a job with parameter servers, decided from what is measured of it.
//!
//! The master hands a [`Sample`] to the [`Sizer`] every second. The way of a sample: [`window`] measures, [`model`]
//! predicts the throughput of other sizes, [`search`] chooses among them, [`trial`] compares promise and result. Memory
//! that fills up ([`memory`]) goes its own, shorter way. What comes out is a [`Proposal`], which the controller carries out
//! like any other plan.
//!
//! Nothing here acts, and nothing here is kept: after a restart measuring begins anew. [`sim`] is no part of a decision.

mod allotment;
mod ban;
mod bottleneck;
mod first_size;
mod history;
mod layout;
mod memory;
mod model;
mod mva;
mod proposal;
mod sample;
mod search;
pub mod sim;
mod sizer;
#[cfg(test)]
mod tests;
mod trial;
mod window;

pub use allotment::{Allotment, Ceiling};
pub use bottleneck::Bottleneck;
pub use first_size::first_allotment;
pub use layout::Layout;
pub use proposal::{Evidence, Proposal, Purpose, TrialResult};
pub use sample::{AutomaticPlan, BatchTimes, PlanState, PodLoad, PodSample, Sample, ScaledRole, Servers};
pub use sizer::{Decision, Sizer};
pub use window::Measurement;
