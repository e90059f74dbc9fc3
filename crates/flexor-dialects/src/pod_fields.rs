//! Fields of a pod template that Kubernetes does not know.
//!
//! They are passed on all the same, because a newer Kubernetes may know them; but most of them are slips.

use flexor_model::Reason;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

use crate::{Finding, finding::shortened, suggest};

/// A warning for each field of the template at `path` that this Kubernetes does not know. A template that it cannot
/// read at all is an error: no pod could be made from it.
pub(crate) fn look_at(template: &Value, path: &str) -> Result<Vec<Finding>, Finding> {
    let understood: PodTemplateSpec = serde_path_to_error::deserialize(template).map_err(|error| {
        let inside = error.path().to_string();
        let field = if inside == "." { path.to_owned() } else { format!("{path}.{inside}") };
        Finding::new(Reason::UnreadablePod, field, in_our_words(&error.inner().to_string()))
    })?;
    let mut findings = Vec::new();
    compare(template, &serde_json::to_value(&understood).unwrap_or_default(), path, &mut findings);
    Ok(findings)
}

/// `invalid type: string "22", expected i32` as people say it.
fn in_our_words(error: &str) -> String {
    let Some((found, wanted)) = error.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return error.to_owned();
    };
    let wanted = match wanted {
        "i32" | "i64" | "u32" | "u64" => "a whole number",
        "a sequence" => "a list",
        "a string" | "a boolean" | "a map" => wanted,
        "Quantity" => "a quantity",
        "IntOrString" => "a whole number or a string",
        _ => "a map",
    };
    format!("must be {wanted}, got {}", shortened(&found.replace("floating point", "the number")))
}

/// What went in and did not come out again was not understood.
fn compare(written: &Value, understood: &Value, path: &str, findings: &mut Vec<Finding>) {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => {
            for (key, value) in written {
                match understood.get(key) {
                    Some(other) => compare(value, other, &format!("{path}.{key}"), findings),
                    None if says_nothing(value) || is_heading(key, path) => {}
                    None => findings.push(unknown_field(key, path)),
                }
            }
        }
        (Value::Array(written), Value::Array(understood)) => {
            for (i, (value, other)) in written.iter().zip(understood).enumerate() {
                compare(value, other, &format!("{path}[{i}]"), findings);
            }
        }
        _ => {}
    }
}

/// Published samples write `apiVersion: v1` and `kind: Pod` at the top of a template.
fn is_heading(key: &str, path: &str) -> bool {
    path.ends_with(".template") && matches!(key, "apiVersion" | "kind")
}

/// Empty lists and mappings are dropped when a pod is written back.
fn says_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn unknown_field(key: &str, path: &str) -> Finding {
    /// Fields that people write by hand, for "did you mean".
    const OFTEN_WRITTEN: [&str; 34] = [
        "affinity",
        "annotations",
        "args",
        "command",
        "containers",
        "containerPort",
        "dnsPolicy",
        "emptyDir",
        "env",
        "envFrom",
        "hostNetwork",
        "image",
        "imagePullPolicy",
        "imagePullSecrets",
        "initContainers",
        "labels",
        "livenessProbe",
        "mountPath",
        "nodeSelector",
        "persistentVolumeClaim",
        "ports",
        "priorityClassName",
        "readinessProbe",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "securityContext",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumeMounts",
        "volumes",
        "workingDir",
    ];
    let finding = Finding::new(Reason::UnknownPodField, format!("{path}.{key}"), "not a field of a Kubernetes pod");
    match suggest::closest(key, OFTEN_WRITTEN) {
        Some(meant) => finding.help(format!("did you mean `{meant}`?")),
        None => finding.help("it is passed on as it is"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_slip_deep_in_a_template_is_named_with_what_was_meant() {
        let template = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "main", "image": "x", "imagePullPolice": "Always", "ports": []}], "volumes": []},
        });
        let findings = look_at(&template, "spec.template").unwrap();
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "spec.template.spec.containers[0].imagePullPolice: not a field of a Kubernetes pod; did you mean `imagePullPolicy`?"
            ]
        );
    }

    #[test]
    fn a_good_template_is_not_complained_about() {
        let template = json!({"spec": {
            "containers": [{"name": "main", "resources": {"limits": {"cpu": 0.5, "memory": "4Gi"}}, "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
            "volumes": [{"name": "d", "emptyDir": {}}],
        }});
        assert_eq!(look_at(&template, "t").unwrap(), []);
    }

    #[test]
    fn a_wrong_type_is_named_where_it_stands() {
        let template = json!({"spec": {"containers": [{"name": "main", "ports": [{"containerPort": "22"}]}]}});
        assert_eq!(
            look_at(&template, "t").unwrap_err().to_string(),
            "t.spec.containers[0].ports[0].containerPort: must be a whole number, got string \"22\""
        );
    }
}
