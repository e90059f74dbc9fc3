//! Fragments of schemas that several kinds share.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Anything at all: parts of Kubernetes objects that are passed on as they are.
pub(crate) fn passed_on(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of such objects.
pub(crate) fn list_passed_on(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}
