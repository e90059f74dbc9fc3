//! The names in an object's metadata, and the numbers that schemas have already bounded.

use flexor_model::{DnsLabel, JobName, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Finding;

/// The job's name.
pub(crate) fn job_name(metadata: &ObjectMeta) -> Result<JobName, Finding> {
    let name = metadata.name.as_deref().unwrap_or_default();
    name.parse().map_err(|error| Finding::new(Reason::InvalidValue, "metadata.name", format!("`{name}` {error}")))
}

/// The namespace, where there is one.
pub(crate) fn namespace(metadata: &ObjectMeta) -> Result<Option<DnsLabel>, Finding> {
    let Some(name) = metadata.namespace.as_deref() else {
        return Ok(None);
    };
    name.parse()
        .map(Some)
        .map_err(|error| Finding::new(Reason::InvalidValue, "metadata.namespace", format!("`{name}` {error}")))
}

/// A number that the schema keeps from being negative, or what its absence means.
pub(crate) fn in_range(number: Option<i32>, otherwise: u32) -> u32 {
    number.map_or(otherwise, |n| u32::try_from(n).unwrap_or(0))
}
