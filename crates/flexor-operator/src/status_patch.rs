//! Writes the status of an object: a JSON Patch that only applies to the version that was read.
//!
//! A merge patch could not remove keys, and a server-side apply compares nothing.

use kube::Api;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// Writes a status. Returns the version of the object afterwards.
pub(crate) async fn write(
    api: &Api<DynamicObject>,
    name: &str,
    version: &str,
    status: &Value,
) -> Result<String, kube::Error> {
    let operations = json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": version },
        { "op": "add", "path": "/status", "value": status },
    ]);
    let patch = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
    let written = api.patch_status(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await?;
    Ok(written.resource_version().unwrap_or_default())
}
