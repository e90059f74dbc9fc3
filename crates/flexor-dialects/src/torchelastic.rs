//! TorchElastic's controller: `ElasticJob` of `elastic.pytorch.org/v1alpha1`, pods that run stock `torchrun`.
//!
//! `rdzvEndpoint` is optional here: without it the job has a master of its own that holds the rendezvous, and nobody
//! runs an etcd.

mod convert;
mod elastic_job;
mod naming;
mod warnings;

use std::sync::OnceLock;

use kube::CustomResourceExt;

use crate::{
    kind::{Kind, Reading, typed},
    manifest::Subject,
};

pub use elastic_job::{
    ElasticJob, ElasticJobSpec, ElasticJobStatus, ReplicaSpecs, ReplicaStatus, SchedulingPolicy, WorkerSpec,
};

/// The dialect's name.
pub const NAME: &str = "torchelastic";

/// Its kinds.
pub static KINDS: [Kind; 1] = [Kind {
    dialect: NAME,
    group: "elastic.pytorch.org",
    version: "v1alpha1",
    kind: "ElasticJob",
    crd: ElasticJob::crd,
    read: |json| {
        let job: ElasticJob = typed(json)?;
        let mut findings = warnings::of_job(&job.spec);
        let subject = convert::to_job(&job, &mut findings)?;
        Ok(Reading { subject: Some(Subject::Job(subject)), findings })
    },
    judge: OnceLock::new(),
}];
