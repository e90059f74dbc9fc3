#![doc = include_str!("../README.md")]

mod amounts;
mod base;
mod budget;
mod classes;
mod cluster;
mod decision;
mod fulfilment;
mod index;
mod intake;
mod job;
mod ledger;
mod names;
mod outcome;
mod plan;
mod redemption;
mod room;
mod settle;
mod share;
mod shortage;
pub mod sim;
mod state;
mod surplus;

pub use amounts::Amount;
pub use budget::SwapBudget;
pub use cluster::{Location, Node, Pod, PodShape, PodSlot, Taint, TaintEffect, Toleration};
pub use decision::{ClusterPlan, Creation, HeldJob, Removal, RoleDecision, Rule};
pub use job::{Promise, SizedJob, SizedRole};
pub use names::{JobKey, NodeName};
pub use plan::{PlanInput, plan};
pub use shortage::Shortage;

#[cfg(test)]
mod tests;
