//! Pod templates as manifests write them.
//!
//! A template is passed on as it is. The type and its schema name only what Flexor reads; every other field, known to
//! this Kubernetes or not, is kept in `rest` and preserved by the API server.

use std::borrow::Cow;

use flexor_model::{self as model, Reason};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    Finding,
    command_hints::{self, Launcher},
    pod_fields, resource_hints,
    wire_resources::ResourceRequirements,
};

/// The template of a role's pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// The pod.
    pub spec: PodSpec,
    /// Everything else: labels, annotations.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is read of a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Its containers; at least one.
    pub containers: Vec<Container>,
    /// Its restart policy; Flexor decides restarts itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// How long it may take to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is read of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The arguments of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    /// Its resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One environment variable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value, if it is a plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where else the value comes from.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl PodTemplate {
    /// The template that stands at `path`, as the engine knows it, and what was noticed about it. The main container is
    /// the one called `main`, else the first.
    pub(crate) fn read(
        &self,
        path: &str,
        main: &str,
        launcher: Launcher,
        findings: &mut Vec<Finding>,
    ) -> Result<model::PodTemplate, Finding> {
        let json = serde_json::to_value(self).expect("a template came from JSON and goes back to it");
        findings.extend(pod_fields::look_at(&json, path)?);
        for (i, container) in self.spec.containers.iter().enumerate() {
            let path = format!("{path}.spec.containers[{i}]");
            let resources = container.resources.clone().unwrap_or_default();
            resource_hints::look_at(&resources, &format!("{path}.resources"), findings)?;
        }
        let template = model::PodTemplate::new(json, main)
            .map_err(|error| Finding::new(Reason::UnreadablePod, format!("{path}.{}", error.path), error.problem))?;
        let index = template.main_index();
        for (i, container) in self.spec.containers.iter().enumerate() {
            // Only the container that trains is steered by the variables that its command line may override.
            let launcher = if i == index { launcher } else { Launcher::Any };
            for (part, words) in [("command", &container.command), ("args", &container.args)] {
                let words: Vec<&str> = words.iter().flatten().map(String::as_str).collect();
                let field = format!("{path}.spec.containers[{i}].{part}");
                findings.extend(command_hints::look_at(&words, launcher, &field));
            }
        }
        let path = format!("{path}.spec.containers[{index}]");
        if template.main().image().is_none_or(str::is_empty) {
            findings.push(Finding::new(Reason::NoImage, path, "has no image").help("add `image:`"));
        }
        Ok(template)
    }
}

/// The template of a role that runs Flexor itself and that its users do not write.
pub(crate) fn of_flexor(container: &str) -> model::PodTemplate {
    let json = json!({"spec": {"containers": [{"name": container}]}});
    model::PodTemplate::new(json, container).expect("a container with a name is all that a template needs")
}

/// Containers in one pod; a bound that rules can count on.
const MOST_CONTAINERS: u32 = 32;

impl JsonSchema for EnvVar {
    fn schema_name() -> Cow<'static, str> {
        "EnvVar".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let texts = json_schema!({"type": "array", "items": {"type": "string"}});
        let resources = ResourceRequirements::json_schema(generator);
        let env = EnvVar::json_schema(generator);
        let container = json_schema!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 63},
                "image": {"type": "string"},
                "command": texts,
                "args": texts,
                "env": {"type": "array", "items": env},
                "resources": resources,
            },
            "x-kubernetes-preserve-unknown-fields": true,
        });
        let pod = json_schema!({
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_CONTAINERS,
                    "items": container,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "restartPolicy": {"type": "string"},
                "priorityClassName": {"type": "string"},
                "terminationGracePeriodSeconds": {"type": "integer", "minimum": 0},
            },
            "x-kubernetes-preserve-unknown-fields": true,
        });
        json_schema!({
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": pod},
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
