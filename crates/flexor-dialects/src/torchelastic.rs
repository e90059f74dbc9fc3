//! TorchElastic's controller: `ElasticJob` of `elastic.pytorch.org/v1alpha1`, pods that run stock `torchrun`.
//!
//! `rdzvEndpoint` is optional here: without it the job has a master of its own that holds the rendezvous, and nobody
//! runs an etcd.

mod convert;
mod elastic_job;
mod naming;
mod status;
mod warnings;

use kube::CustomResourceExt;

use crate::{
    dialect::Dialect,
    job_status,
    kind::{Kind, typed},
    manifest::Subject,
};

pub use convert::to_job;
pub use elastic_job::{
    CleanPodPolicy, ElasticJob, ElasticJobSpec, ElasticJobStatus, ReplicaSpecs, ReplicaStatus, RestartPolicy,
    SchedulingPolicy, WorkerSpec,
};
pub use status::{event, status};

/// The dialect's name.
pub const NAME: &str = "torchelastic";

/// How it speaks of its jobs.
pub(crate) static DIALECT: Dialect = Dialect {
    name: NAME,
    conditions: status::conditions,
    status: |input| job_status::json(&status::status(input)),
    event: status::event,
    conditions_pointer: "/conditions",
    plans: None,
};

/// Its kinds.
pub static KINDS: [Kind; 1] =
    [Kind::new(NAME, ["elastic.pytorch.org", "v1alpha1", "ElasticJob"], ElasticJob::crd, |json| {
        Ok(to_job(&typed(json)?)?.map(Subject::Job))
    })];
