//! Stories about the planner on a small fake cluster, and properties that hold in all of them.

mod fixture;
mod hybrid;
mod promises;
mod properties;
mod refusals;
mod tutorial;
