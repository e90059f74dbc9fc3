//! DLRover: `ElasticJob` and `ScalePlan` of `elastic.iml.github.io/v1alpha1`.
//!
//! Parameter-server and all-reduce jobs whose master sizes them. Field names are those of every published generation,
//! v0.1 to 0.7; what a generation accepted without using it is accepted here with a warning.

mod convert;
mod elastic_job;
mod naming;
mod plan;
mod scale_plan;
mod warnings;

use std::sync::OnceLock;

use kube::CustomResourceExt;

use crate::{
    kind::{Kind, Reading, typed},
    manifest::Subject,
};

pub use elastic_job::{ElasticJob, ElasticJobSpec, ElasticJobStatus, JobStatus, ReplicaSpec, ReplicaStatus};
pub use scale_plan::{PodMeta, ReplicaResourceSpec, ScalePlan, ScalePlanSpec, ScalePlanStatus};

/// The dialect's name.
pub const NAME: &str = "dlrover";

const GROUP: &str = "elastic.iml.github.io";
const VERSION: &str = "v1alpha1";

/// Its kinds.
pub static KINDS: [Kind; 2] = [
    Kind {
        dialect: NAME,
        group: GROUP,
        version: VERSION,
        kind: "ElasticJob",
        crd: ElasticJob::crd,
        read: |json| {
            let job: ElasticJob = typed(json)?;
            let mut findings = warnings::of_job(&job.spec);
            let subject = convert::to_job(&job, &mut findings)?;
            Ok(Reading { subject: Some(Subject::Job(subject)), findings })
        },
        judge: OnceLock::new(),
    },
    Kind {
        dialect: NAME,
        group: GROUP,
        version: VERSION,
        kind: "ScalePlan",
        crd: ScalePlan::crd,
        read: |json| {
            let scale_plan: ScalePlan = typed(json)?;
            let mut findings = Vec::new();
            let subject = plan::to_plan(&scale_plan, &mut findings)?;
            Ok(Reading { subject: Some(Subject::Plan(subject)), findings })
        },
        judge: OnceLock::new(),
    },
];
