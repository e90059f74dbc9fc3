//! PaddlePaddle EDL: `TrainingJob` of `paddlepaddle.org/v1`.
//!
//! Trainers and parameter servers that the cluster's planner sizes. Both published shapes are one type here: that of
//! 2017, when it was a third-party resource, and that of 2018.

mod convert;
mod naming;
mod training_job;
mod warnings;

use std::sync::OnceLock;

use kube::CustomResourceExt;

use crate::{
    kind::{Kind, Reading, typed},
    manifest::Subject,
};

pub use training_job::{
    MasterSpec, PserverSpec, ReplicaStatus, ScaleRecord, TrainerSpec, TrainingJob, TrainingJobSpec, TrainingJobStatus,
};

/// The dialect's name.
pub const NAME: &str = "edl";

/// Its kinds.
pub static KINDS: [Kind; 1] = [Kind {
    dialect: NAME,
    group: "paddlepaddle.org",
    version: "v1",
    kind: "TrainingJob",
    crd: TrainingJob::crd,
    read: |json| {
        let job: TrainingJob = typed(json)?;
        let mut findings = warnings::of_job(&job.spec);
        let subject = convert::to_job(&job, &mut findings)?;
        Ok(Reading { subject: Some(Subject::Job(subject)), findings })
    },
    judge: OnceLock::new(),
}];
