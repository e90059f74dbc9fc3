//! ElasticDL's wire, as its workers speak it: calls over loopback, and what they lead to.

mod bad_tensors;
mod checkpoints;
mod conversion;
mod initial_values;
mod pulls;
mod served;
mod steps;
mod training;
