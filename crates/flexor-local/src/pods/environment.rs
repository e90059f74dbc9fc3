//! The variables of a container, as Kubernetes puts them together: those it starts with, then `envFrom`, then `env`.
//! Each value of `env` may refer to variables before it.

use std::collections::BTreeMap;

use flexor_model::expansion::{LARGEST_ENVIRONMENT, LONGEST_TEXT, expand};
use serde_json::Value;
use thiserror::Error;

use crate::objects::ObjectKind;

/// What `valueFrom`, `envFrom` and volumes of files take their values from.
pub trait ValueSources {
    /// A field of the pod, such as `status.podIP` or `metadata.labels['app']`.
    fn pod_field(&self, path: &str) -> Option<String>;
    /// A resource of a container, such as `limits.cpu`.
    fn resource_field(&self, container: &Value, resource: &str) -> Option<String>;
    /// The data of a ConfigMap or Secret.
    fn data(&self, kind: ObjectKind, name: &str) -> Option<BTreeMap<String, Vec<u8>>>;
}

/// Why a container cannot have its variables.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvError {
    /// The object, or a key of it, does not exist yet. The pod waits for it.
    #[error("variable {variable} refers to {what}, which does not exist")]
    Missing { variable: String, what: String },
    /// No pod has such a field, and no object can bring it.
    #[error("variable {variable} refers to {what}, which no pod has")]
    Unknown { variable: String, what: String },
    #[error("variable {variable} has more than {LONGEST_TEXT} bytes, the most that a program can be given")]
    TooLong { variable: String },
    #[error("with variable {variable} all variables have more than {LARGEST_ENVIRONMENT} bytes together")]
    TooMany { variable: String },
}

/// The variables of `container`. Those of `base` are overwritten by its own.
///
/// # Errors
///
/// A variable refers to something that does not exist.
pub fn of_container(
    container: &Value,
    base: BTreeMap<String, String>,
    sources: &dyn ValueSources,
) -> Result<BTreeMap<String, String>, EnvError> {
    let mut variables = base;
    let mut size = 0;
    for source in list(&container["envFrom"]) {
        variables.extend(all_of(source, sources)?);
    }
    for variable in list(&container["env"]) {
        let Some(name) = variable["name"].as_str() else { continue };
        let value = match (variable["value"].as_str(), &variable["valueFrom"]) {
            (Some(text), _) => {
                let expanded = expand(text, |name| variables.get(name).map(String::as_str));
                Some(expanded.map_err(|_| EnvError::TooLong { variable: name.to_owned() })?)
            }
            (None, Value::Object(_)) => one_of(name, container, &variable["valueFrom"], sources)?,
            (None, _) => Some(String::new()),
        };
        if let Some(value) = value {
            if name.len() + value.len() >= LONGEST_TEXT {
                return Err(EnvError::TooLong { variable: name.to_owned() });
            }
            size += value.len();
            if size > LARGEST_ENVIRONMENT {
                return Err(EnvError::TooMany { variable: name.to_owned() });
            }
            variables.insert(name.to_owned(), value);
        }
    }
    Ok(variables)
}

fn all_of(source: &Value, sources: &dyn ValueSources) -> Result<Vec<(String, String)>, EnvError> {
    let prefix = source["prefix"].as_str().unwrap_or_default();
    let (reference, kind) = if source["configMapRef"].is_object() {
        (&source["configMapRef"], ObjectKind::ConfigMap)
    } else {
        (&source["secretRef"], ObjectKind::Secret)
    };
    let name = reference["name"].as_str().unwrap_or_default();
    match sources.data(kind, name) {
        // A value that is not UTF-8 cannot be a variable. Kubernetes leaves it out too.
        Some(data) => Ok(data
            .into_iter()
            .filter_map(|(key, value)| Some((format!("{prefix}{key}"), String::from_utf8(value).ok()?)))
            .collect()),
        None if reference["optional"] == true => Ok(Vec::new()),
        None => {
            let what = format!("the {} {name}", kind.as_str());
            Err(EnvError::Missing { variable: "in envFrom".to_owned(), what })
        }
    }
}

fn one_of(
    variable: &str,
    container: &Value,
    from: &Value,
    sources: &dyn ValueSources,
) -> Result<Option<String>, EnvError> {
    let unknown = |what: String| EnvError::Unknown { variable: variable.to_owned(), what };
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        let value = sources.pod_field(path);
        return value.map(Some).ok_or_else(|| unknown(format!("the field {path} of its pod")));
    }
    if let Some(resource) = from["resourceFieldRef"]["resource"].as_str() {
        let value = sources.resource_field(container, resource);
        return value.map(Some).ok_or_else(|| unknown(format!("the resource {resource} of its container")));
    }
    let (reference, kind) = if from["configMapKeyRef"].is_object() {
        (&from["configMapKeyRef"], ObjectKind::ConfigMap)
    } else if from["secretKeyRef"].is_object() {
        (&from["secretKeyRef"], ObjectKind::Secret)
    } else {
        let kind = from.as_object().and_then(|from| from.keys().next()).map_or("nothing", String::as_str);
        return Err(unknown(kind.to_owned()));
    };
    let name = reference["name"].as_str().unwrap_or_default();
    let key = reference["key"].as_str().unwrap_or_default();
    match sources.data(kind, name).and_then(|mut data| data.remove(key)) {
        Some(value) => {
            let what = || format!("key {key} of the {} {name} as a text", kind.as_str());
            String::from_utf8(value).map(Some).map_err(|_| unknown(what()))
        }
        None if reference["optional"] == true => Ok(None),
        None => {
            let what = format!("key {key} of the {} {name}", kind.as_str());
            Err(EnvError::Missing { variable: variable.to_owned(), what })
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct TestSources;

    impl ValueSources for TestSources {
        fn pod_field(&self, path: &str) -> Option<String> {
            (path == "metadata.name").then(|| "p".to_owned())
        }
        fn resource_field(&self, container: &Value, resource: &str) -> Option<String> {
            container["resources"]["limits"][resource.strip_prefix("limits.")?].as_str().map(str::to_owned)
        }
        fn data(&self, kind: ObjectKind, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
            let is_there = kind == ObjectKind::ConfigMap && name == "c";
            is_there.then(|| [("k".to_owned(), b"v".to_vec()), ("b".to_owned(), vec![0xff])].into())
        }
    }

    #[test]
    fn later_variables_win_and_refer_to_earlier_ones() {
        let container = json!({
            "resources": { "limits": { "cpu": "2" } },
            "envFrom": [{ "prefix": "C_", "configMapRef": { "name": "c" } },
                        { "secretRef": { "name": "none", "optional": true } }],
            "env": [
                { "name": "A", "value": "mine" },
                { "name": "B", "value": "$(A) $(C_k) $(OURS) $(D)" },
                { "name": "D", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "E", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
                { "name": "F", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } },
                { "name": "G", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "x", "optional": true } } },
                { "name": "H" },
            ],
        });
        let base = [("A", "ours"), ("OURS", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = of_container(&container, base.into(), &TestSources).unwrap();
        let texts: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(texts, ["A=mine", "B=mine v 1 $(D)", "C_k=v", "D=p", "E=2", "F=v", "H=", "OURS=1"]);
    }

    #[test]
    fn a_reference_to_nothing_names_what_is_missing() {
        let container =
            json!({ "env": [{ "name": "S", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] });
        let error = of_container(&container, BTreeMap::new(), &TestSources).unwrap_err();
        assert_eq!(error.to_string(), "variable S refers to key k of the Secret s, which does not exist");
        let container = json!({ "env": [{ "name": "F", "valueFrom": { "fieldRef": { "fieldPath": "spec.nope" } } }] });
        let error = of_container(&container, BTreeMap::new(), &TestSources).unwrap_err();
        assert_eq!(error.to_string(), "variable F refers to the field spec.nope of its pod, which no pod has");
    }
}
