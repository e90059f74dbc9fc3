//! The part of the schema that the API server knows without being told: `apiVersion`, `kind` and `metadata`.

use serde_json::{Value, json};

/// A kind's schema together with what every Kubernetes object has.
pub(crate) fn with_object_fields(kind_schema: &Value) -> Value {
    let mut schema = kind_schema.clone();
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let text = json!({"type": "string"});
    let fields = json!({
        "apiVersion": text,
        "kind": text,
        "metadata": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 253,
                    "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
                    "description": "The object's name. Must be made of lower-case letters, digits and `-`.",
                },
                "namespace": {
                    "type": "string",
                    "maxLength": 63,
                    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    "description": "The object's namespace. Must be made of lower-case letters, digits and `-`.",
                },
                "labels": texts,
                "annotations": texts,
                "generateName": text,
                "finalizers": {"type": "array", "items": text},
                "ownerReferences": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                // Written by the API server; present in manifests that were read back from a cluster.
                "creationTimestamp": text,
                "deletionGracePeriodSeconds": {"type": "integer"},
                "deletionTimestamp": text,
                "generation": {"type": "integer"},
                "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            },
        },
    });
    if let (Some(properties), Value::Object(fields)) = (schema["properties"].as_object_mut(), fields) {
        properties.extend(fields);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    schema["required"] = required.into_iter().chain([json!("metadata")]).collect();
    schema
}
