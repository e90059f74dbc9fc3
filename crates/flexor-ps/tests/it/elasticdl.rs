//! Tests of ElasticDL's protocol over loopback, with calls as its workers send them.

mod bad_tensors;
mod checkpoints;
mod conversion;
mod initial_values;
mod job;
mod loopback_server;
mod pulls;
mod steps;
