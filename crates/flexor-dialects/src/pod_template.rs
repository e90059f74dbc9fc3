//! Pod templates as manifests write them.
//!
//! A template is passed on as it is. The type and its schema name only what Flexor reads; every other field, known to
//! this Kubernetes or not, is kept in `rest` and preserved by the API server.

use std::borrow::Cow;

use flexor_model::{self as model, EnvEntry, MainContainer, Resources};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Finding,
    command_hints::{self, Launcher},
    pod_fields,
    wire_resources::{ResourceRequirements, read_list},
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

/// A template as the engine knows it, with what its main container asks for.
pub(crate) struct ReadTemplate {
    pub(crate) template: model::PodTemplate,
    pub(crate) requests: Resources,
    pub(crate) limits: Resources,
}

impl PodTemplate {
    /// Reads the template that stands at `path`. The main container is the one called `main_name`, else the first.
    pub(crate) fn read(
        &self,
        path: &str,
        main_name: &str,
        launcher: Launcher,
        findings: &mut Vec<Finding>,
    ) -> ReadTemplate {
        let json = serde_json::to_value(self).expect("a template came from JSON and goes back to it");
        findings.extend(pod_fields::unknown(&json, path));
        let index = self.spec.containers.iter().position(|c| c.name == main_name).unwrap_or(0);
        let nothing = Container::default();
        let main = self.spec.containers.get(index).unwrap_or(&nothing);
        let container_path = format!("{path}.spec.containers[{index}]");
        let command = main.command.clone().unwrap_or_default();
        let args = main.args.clone().unwrap_or_default();
        findings.extend(command_hints::look_at(&command, launcher, &format!("{container_path}.command")));
        findings.extend(command_hints::look_at(&args, launcher, &format!("{container_path}.args")));
        let resources = main.resources.clone().unwrap_or_default();
        let limits = read_list(resources.limits.as_ref(), &format!("{container_path}.resources.limits"), findings);
        let asked = read_list(resources.requests.as_ref(), &format!("{container_path}.resources.requests"), findings);
        // What is limited but not asked for is asked for, as Kubernetes has it.
        let requests = limits.iter().chain(asked.iter()).collect();
        let env = main.env.iter().flatten();
        let template = model::PodTemplate {
            json,
            main: MainContainer {
                index,
                name: main.name.clone(),
                image: main.image.clone().unwrap_or_default(),
                command,
                args,
                env: env.map(|env| EnvEntry { name: env.name.clone(), value: env.value.clone() }).collect(),
            },
            priority_class: self.spec.priority_class_name.clone(),
            grace_seconds: self.spec.termination_grace_period_seconds.and_then(|s| u32::try_from(s).ok()),
        };
        ReadTemplate { template, requests, limits }
    }

    /// A template of one container, for roles whose users write none.
    pub(crate) fn of(container: Container) -> Self {
        Self { spec: PodSpec { containers: vec![container], ..PodSpec::default() }, rest: Map::new() }
    }
}

/// Containers in one pod; a bound that rules can count on.
const MOST_CONTAINERS: u32 = 32;

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
        let env = json_schema!({
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true,
        });
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
