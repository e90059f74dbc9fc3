//! DLRover: `ElasticJob` and `ScalePlan` of `elastic.iml.github.io/v1alpha1`.
//!
//! Parameter-server and all-reduce jobs whose master sizes them. Field names are those of every published generation,
//! v0.1 to 0.7; what a generation accepted without using it is accepted here with a warning.

mod convert;
mod critical;
mod elastic_job;
mod naming;
mod plan;
mod scale_plan;
mod status;
mod warnings;

use kube::CustomResourceExt;

use crate::{
    dialect::{Dialect, PlanForm},
    events, job_status,
    kind::{Kind, typed},
    manifest::Subject,
};

pub use convert::to_job;
pub use elastic_job::{
    DistributionStrategy, ElasticJob, ElasticJobSpec, ElasticJobStatus, JobStatus, OptimizeMode, ReplicaSpec,
    ReplicaStatus,
};
pub use plan::to_plan;
pub use scale_plan::{PodMeta, ReplicaResourceSpec, ScalePlan, ScalePlanSpec, ScalePlanStatus};
pub use status::{plan_status, status};

/// The dialect's name.
pub const NAME: &str = "dlrover";

/// How it speaks of its jobs.
pub(crate) static DIALECT: Dialect = Dialect {
    name: NAME,
    conditions: status::conditions,
    status: |input| job_status::json(&status::status(input)),
    event: events::in_own_words,
    conditions_pointer: "/status/conditions",
    plans: Some(PlanForm {
        manifest: plan::manifest,
        write: |input| job_status::json(&status::plan_status(input)),
        read: status::read_plan_status,
    }),
};

/// Its kinds.
pub static KINDS: [Kind; 2] = [
    Kind::new(NAME, ["elastic.iml.github.io", "v1alpha1", "ElasticJob"], ElasticJob::crd, |json| {
        Ok(to_job(&typed(json)?)?.map(Subject::Job))
    }),
    Kind::new(NAME, ["elastic.iml.github.io", "v1alpha1", "ScalePlan"], ScalePlan::crd, |json| {
        Ok(to_plan(&typed(json)?)?.map(Subject::Plan))
    })
    .of_plans(),
];
