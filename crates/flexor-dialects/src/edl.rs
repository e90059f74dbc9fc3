//! PaddlePaddle EDL: `TrainingJob` of `paddlepaddle.org/v1`.
//!
//! Trainers and parameter servers that the cluster's planner sizes. Both published shapes are one type here: that of
//! 2017, when it was a third-party resource, and that of 2018.

mod convert;
mod entrypoint;
mod environment;
mod image;
mod naming;
mod status;
mod training_job;
mod warnings;

use kube::CustomResourceExt;

use crate::{
    dialect::Dialect,
    events, job_status,
    kind::{Kind, typed},
    manifest::Subject,
};

pub use convert::to_job;
pub use status::status;
pub use training_job::{
    MasterSpec, PserverSpec, ReplicaStatus, ScaleRecord, TrainerSpec, TrainingJob, TrainingJobSpec, TrainingJobStatus,
};

/// The dialect's name.
pub const NAME: &str = "edl";

/// How it speaks of its jobs.
pub(crate) static DIALECT: Dialect = Dialect {
    name: NAME,
    conditions: status::conditions,
    status: |input| job_status::json(&status::status(input)),
    event: events::in_own_words,
    conditions_pointer: "/conditions",
    plans: None,
};

/// Its kinds.
pub static KINDS: [Kind; 1] = [Kind::new(NAME, ["paddlepaddle.org", "v1", "TrainingJob"], TrainingJob::crd, |json| {
    Ok(to_job(&typed(json)?)?.map(Subject::Job))
})];
