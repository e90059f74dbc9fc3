//! Schemas: fragments that several kinds share, and what is done to a derived definition before a cluster gets it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// Anything at all: parts of Kubernetes objects that are passed on as they are.
pub(crate) fn passed_on(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of such objects.
pub(crate) fn list_passed_on(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// The schema in a definition, as JSON.
pub(crate) fn of(crd: &CustomResourceDefinition) -> Value {
    crd.spec
        .versions
        .first()
        .and_then(|version| version.schema.as_ref())
        .and_then(|schema| schema.open_api_v3_schema.as_ref())
        .and_then(|schema| serde_json::to_value(schema).ok())
        .expect("a definition made from a Rust type has one version with a schema")
}

/// The definition without `nullable`: a key with nothing behind it then means the same as no key, for the API server
/// as for us, instead of being stored.
pub(crate) fn without_nulls(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    fn strip(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.remove("nullable");
                if let Some(Value::Array(words)) = fields.get_mut("enum") {
                    words.retain(|word| !word.is_null());
                }
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut json = serde_json::to_value(crd).expect("a definition is plain data");
    strip(&mut json);
    serde_json::from_value(json).expect("a definition with fewer keys is still one")
}
