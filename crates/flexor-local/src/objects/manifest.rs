//! From a manifest to an object, or to all that is wrong with it, field by field, as the API server would judge.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flexor_model::{DnsLabel, NameError, ObjectName};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::content::{Content, PriorityClass};
use super::{Object, ObjectKey, ObjectKind};

/// The most bytes of a ConfigMap or Secret, keys not counted.
const MOST_DATA: usize = 1 << 20;
const LONGEST_KEY: usize = 253;
/// Higher values are reserved for the cluster's own classes.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
/// The fields of `metadata` that users write. The API server owns the rest.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Such as `data.x`.
    pub field: String,
    /// Says what to write instead.
    pub problem: String,
}

impl Object {
    /// Reads a manifest, or returns all that is wrong with it. Returns nothing for other kinds.
    pub fn read(manifest: &Value) -> Option<Result<Self, Vec<FieldError>>> {
        let kind = ObjectKind::ALL.into_iter().find(|kind| manifest["kind"] == kind.as_str())?;
        // Other API groups may have kinds of the same names.
        let group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let version = manifest["apiVersion"].as_str()?;
        if group(version) != group(kind.api_version()) {
            return None;
        }
        let mut reader = ManifestReader { errors: Vec::new() };
        if version != kind.api_version() {
            reader.error("apiVersion", format!("{} is served as {}; write that", kind.as_str(), kind.api_version()));
        }
        let object = reader.object(kind, manifest);
        Some(object.filter(|_| reader.errors.is_empty()).ok_or(reader.errors))
    }
}

struct ManifestReader {
    errors: Vec<FieldError>,
}

impl ManifestReader {
    fn object(&mut self, kind: ObjectKind, manifest: &Value) -> Option<Object> {
        let known: &[&str] = match kind {
            ObjectKind::ConfigMap => &["data", "binaryData", "immutable"],
            ObjectKind::Secret => &["data", "stringData", "type", "immutable"],
            ObjectKind::PriorityClass => &["value", "globalDefault", "preemptionPolicy", "description"],
        };
        for key in manifest.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) && !["apiVersion", "kind", "metadata"].contains(&key.as_str()) {
                self.error(key, format!("{} has no such field; it has {}", kind.as_str(), known.join(", ")));
            }
        }
        let key = self.key(kind, &manifest["metadata"]);
        let mut kept = json!({ "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": {} });
        let content = match kind {
            ObjectKind::ConfigMap => self.config_map(manifest, &mut kept),
            ObjectKind::Secret => self.secret(manifest, &mut kept),
            ObjectKind::PriorityClass => self.priority_class(manifest, &mut kept),
        };
        let key = key?;
        let metadata = manifest["metadata"].as_object().into_iter().flatten();
        let metadata = metadata.filter(|(field, _)| METADATA.contains(&field.as_str()));
        let mut metadata: Map<String, Value> = metadata.map(|(field, value)| (field.clone(), value.clone())).collect();
        match &key.namespace {
            Some(namespace) => metadata.insert("namespace".to_owned(), namespace.as_str().into()),
            None => metadata.remove("namespace"),
        };
        kept["metadata"] = Value::Object(metadata);
        Some(Object { key, manifest: kept, content: content? })
    }

    fn key(&mut self, kind: ObjectKind, metadata: &Value) -> Option<ObjectKey> {
        let name = match metadata["name"].as_str() {
            Some(name) => name.parse::<ObjectName>().map_err(|error| self.name("metadata.name", name, &error)).ok(),
            None => {
                self.error("metadata.name", "is missing; add `name:`");
                None
            }
        };
        let namespace = match &metadata["namespace"] {
            _ if !kind.is_namespaced() => None,
            Value::Null => "default".parse().ok(),
            Value::String(text) => {
                let read = text.parse::<DnsLabel>();
                Some(read.map_err(|error| self.name("metadata.namespace", text, &error)).ok()?)
            }
            other => {
                self.error("metadata.namespace", format!("must be a string, got {}", described(other)));
                return None;
            }
        };
        for field in ["labels", "annotations"] {
            self.strings(&format!("metadata.{field}"), &metadata[field]);
        }
        Some(ObjectKey { kind, namespace, name: name? })
    }

    fn config_map(&mut self, manifest: &Value, kept: &mut Value) -> Option<Content> {
        let texts = self.strings("data", &manifest["data"])?;
        let bytes = self.base64("binaryData", &manifest["binaryData"])?;
        if let Some(both) = bytes.keys().find(|key| texts.contains_key(*key)) {
            self.error(&format!("binaryData.{both}"), "stands in data too; leave one of them out");
        }
        for field in ["data", "binaryData"] {
            keep(field, manifest, kept);
        }
        self.immutable(manifest, kept);
        let data = texts.into_iter().map(|(key, text)| (key, text.into_bytes())).chain(bytes).collect();
        self.data(data)
    }

    fn secret(&mut self, manifest: &Value, kept: &mut Value) -> Option<Content> {
        let mut data = self.base64("data", &manifest["data"])?;
        let texts = self.strings("stringData", &manifest["stringData"])?;
        // As on the API server, `stringData` is stored as `data` and wins over it.
        data.extend(texts.into_iter().map(|(key, text)| (key, text.into_bytes())));
        let encoded: Map<String, Value> =
            data.iter().map(|(key, bytes)| (key.clone(), BASE64_STANDARD.encode(bytes).into())).collect();
        if !encoded.is_empty() {
            kept["data"] = Value::Object(encoded);
        }
        self.text("type", &manifest["type"]);
        kept["type"] = manifest["type"].as_str().unwrap_or("Opaque").into();
        self.immutable(manifest, kept);
        self.data(data)
    }

    fn priority_class(&mut self, manifest: &Value, kept: &mut Value) -> Option<Content> {
        let value = match &manifest["value"] {
            Value::Null => {
                self.error("value", "is missing; write how important its pods are, such as `value: 1000`");
                None
            }
            value => match value.as_i64() {
                Some(value) if value <= HIGHEST_PRIORITY => i32::try_from(value).ok(),
                Some(_) => None,
                None => {
                    self.error("value", format!("must be a whole number, got {}", described(value)));
                    return None;
                }
            },
        };
        if value.is_none() && !manifest["value"].is_null() {
            self.error("value", format!("must lie between {} and {HIGHEST_PRIORITY}", i32::MIN));
        }
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        if name.starts_with("system-") {
            self.error("metadata.name", "names that begin with system- belong to the cluster");
        }
        let global_default = self.flag("globalDefault", &manifest["globalDefault"]);
        let preempts = match &manifest["preemptionPolicy"] {
            Value::Null => true,
            policy if policy == "PreemptLowerPriority" => true,
            policy if policy == "Never" => false,
            _ => {
                self.error("preemptionPolicy", "must be PreemptLowerPriority or Never");
                return None;
            }
        };
        self.text("description", &manifest["description"]);
        for field in ["value", "description"] {
            keep(field, manifest, kept);
        }
        kept["globalDefault"] = global_default.into();
        kept["preemptionPolicy"] = if preempts { "PreemptLowerPriority" } else { "Never" }.into();
        Some(Content::Priority(PriorityClass { value: value?, global_default, preempts }))
    }

    fn data(&mut self, data: BTreeMap<String, Vec<u8>>) -> Option<Content> {
        let size: usize = data.values().map(Vec::len).sum();
        if size > MOST_DATA {
            self.error("data", format!("has {size} bytes; at most {MOST_DATA} are possible"));
        }
        Some(Content::Data(data))
    }

    fn immutable(&mut self, manifest: &Value, kept: &mut Value) {
        if self.flag("immutable", &manifest["immutable"]) {
            kept["immutable"] = true.into();
        }
    }

    /// A mapping to strings; nothing for another type.
    fn strings(&mut self, field: &str, value: &Value) -> Option<BTreeMap<String, String>> {
        let mut texts = BTreeMap::new();
        for (key, value) in self.mapping(field, value)? {
            if !field.starts_with("metadata.") {
                self.data_key(field, key);
            }
            match value.as_str() {
                Some(text) => _ = texts.insert(key.clone(), text.to_owned()),
                // The message must not contain a Secret's value.
                None => {
                    self.error(
                        &format!("{field}.{key}"),
                        format!("must be a string, got {}; put quotes around it", described(value)),
                    );
                }
            }
        }
        Some(texts)
    }

    fn base64(&mut self, field: &str, value: &Value) -> Option<BTreeMap<String, Vec<u8>>> {
        let mut all = BTreeMap::new();
        for (key, text) in self.strings(field, value)? {
            let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            match BASE64_STANDARD.decode(&text) {
                Ok(bytes) => _ = all.insert(key, bytes),
                Err(_) => {
                    let hint = if field == "data" { "; plain text belongs into stringData" } else { "" };
                    self.error(&format!("{field}.{key}"), format!("is not base64{hint}"));
                }
            }
        }
        Some(all)
    }

    fn mapping<'a>(
        &mut self,
        field: &str,
        value: &'a Value,
    ) -> Option<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>> {
        match value {
            Value::Null => Some(None.into_iter().flatten()),
            Value::Object(map) => Some(Some(map).into_iter().flatten()),
            other => {
                self.error(field, format!("must be a mapping, got {}", described(other)));
                None
            }
        }
    }

    /// Checks a key, which becomes the name of a file.
    fn data_key(&mut self, field: &str, key: &str) {
        let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let problem = if key.is_empty() || !key.chars().all(may) {
            "keys consist of letters, digits, `-`, `_` and `.`"
        } else if key.len() > LONGEST_KEY {
            "keys have at most 253 characters"
        } else if key == "." || key.starts_with("..") {
            "keys become names of files, and this is none"
        } else {
            return;
        };
        self.error(&format!("{field}.{key}"), problem);
    }

    fn flag(&mut self, field: &str, value: &Value) -> bool {
        if !matches!(value, Value::Null | Value::Bool(_)) {
            self.error(field, format!("must be true or false, got {}", described(value)));
        }
        value == true
    }

    fn text(&mut self, field: &str, value: &Value) {
        if !matches!(value, Value::Null | Value::String(_)) {
            self.error(field, format!("must be a string, got {}", described(value)));
        }
    }

    fn name(&mut self, field: &str, name: &str, error: &NameError) {
        self.error(field, format!("{name} {error}"));
    }

    fn error(&mut self, field: &str, problem: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), problem: problem.into() });
    }
}

fn keep(field: &str, manifest: &Value, kept: &mut Value) {
    if !manifest[field].is_null() {
        kept[field] = manifest[field].clone();
    }
}

/// The type of a value, without its content.
fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
