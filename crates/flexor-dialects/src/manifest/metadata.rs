//! The part of the schema that the API server knows without being told: `apiVersion`, `kind` and `metadata`.

use serde_json::{Value, json};

const LABEL_NAME: &str = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

/// A kind's schema together with what every Kubernetes object has.
pub(crate) fn with_object_fields(kind_schema: &Value) -> Value {
    let mut schema = kind_schema.clone();
    if let (Some(properties), Value::Object(fields)) = (schema["properties"].as_object_mut(), object_fields()) {
        properties.extend(fields);
        // The API server drops the status of what is created.
        properties.insert("status".to_owned(), open_object());
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    schema["required"] = required.into_iter().chain([json!("metadata")]).collect();
    schema
}

fn object_fields() -> Value {
    let text = json!({"type": "string"});
    let some_text = json!({"type": "string", "minLength": 1});
    let number = json!({"type": "integer"});
    let name = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": format!("^{SUBDOMAIN}$"),
        "description": "The object's name. Must be made of lower-case letters, digits and `-`.",
    });
    json!({
        "apiVersion": text,
        "kind": text,
        "metadata": {
            "type": "object",
            "properties": {
                "name": name,
                "generateName": {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9][-a-z0-9.]*$", "description": "The beginning of the name. Must be made of lower-case letters, digits and `-`."},
                "namespace": {
                    "type": "string",
                    "maxLength": 63,
                    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    "description": "The object's namespace. Must be made of lower-case letters, digits and `-`.",
                },
                "labels": {
                    "type": "object",
                    "propertyNames": qualified_name(),
                    "additionalProperties": {
                        "type": "string",
                        "maxLength": 63,
                        "pattern": format!("^({LABEL_NAME})?$"),
                        "description": "Must be at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit.",
                    },
                },
                "annotations": {
                    "type": "object",
                    // Kubernetes looks at their keys without regard to case.
                    "propertyNames": any_case(qualified_name()),
                    "additionalProperties": text,
                },
                "finalizers": {"type": "array", "items": qualified_name()},
                "ownerReferences": {"type": "array", "items": {
                    "type": "object",
                    "required": ["apiVersion", "kind", "name", "uid"],
                    "properties": {
                        "apiVersion": some_text, "kind": some_text, "name": some_text, "uid": some_text,
                        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
                    },
                }},
                // Written by the API server; present in manifests that were read back from a cluster.
                "creationTimestamp": text,
                "deletionGracePeriodSeconds": number,
                "deletionTimestamp": text,
                "generation": number,
                "managedFields": {"type": "array", "items": open_object()},
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            },
        },
    })
}

fn qualified_name() -> Value {
    json!({
        "type": "string",
        "maxLength": 317,
        "pattern": format!("^({SUBDOMAIN}/)?{LABEL_NAME}$"),
        "description": "Must be at most 63 letters, digits, `-`, `_` and `.`, with an optional domain and `/` in front.",
    })
}

fn any_case(mut schema: Value) -> Value {
    if let Some(pattern) = schema["pattern"].as_str() {
        schema["pattern"] = format!("(?i){pattern}").into();
    }
    schema
}

fn open_object() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
