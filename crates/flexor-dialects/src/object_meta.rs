//! What is read of an object's metadata, and numbers that schemas have already bounded.

use std::collections::BTreeMap;

use flexor_model::{DnsLabel, JobName, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Finding, finding::quoted};

/// The job's name.
pub(crate) fn job_name(metadata: &ObjectMeta) -> Result<JobName, Finding> {
    let name = metadata.name.as_deref().unwrap_or_default();
    name.parse()
        .map_err(|error| Finding::new(Reason::InvalidValue, "metadata.name", format!("{} {error}", quoted(name))))
}

/// The namespace, where there is one.
pub(crate) fn namespace(metadata: &ObjectMeta) -> Result<Option<DnsLabel>, Finding> {
    let Some(name) = metadata.namespace.as_deref() else { return Ok(None) };
    name.parse()
        .map(Some)
        .map_err(|error| Finding::new(Reason::InvalidValue, "metadata.namespace", format!("{} {error}", quoted(name))))
}

/// Labels or annotations that pods of the job carry too: all but what kubectl keeps for itself.
pub(crate) fn carried(map: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let pairs = map.into_iter().flatten().filter(|(key, _)| !key.starts_with("kubectl.kubernetes.io/"));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A number that must not be negative, or what its absence means.
pub(crate) fn count(number: Option<i32>, otherwise: u32, field: &str) -> Result<u32, Finding> {
    let Some(number) = number else { return Ok(otherwise) };
    u32::try_from(number)
        .map_err(|_| Finding::new(Reason::InvalidValue, field, format!("is {number}; must be at least 0")))
}
