//! The pod template of each role of an ElasticDL job.
//!
//! ElasticDL called the container after its pod and each volume after it, too. A template is shared by all pods of a
//! role, so here they are called after the role: container `worker`, volume `worker-volume-0`. The container has no
//! command: the renderer adds it where the program is Flexor's.

use flexor_model::{PodTemplate, Resources};
use serde_json::{Map, Value, json};

use crate::elasticdl::{
    options::PodOptions,
    values::{PodAdditions, VolumeSource, Volumes},
};

/// What distinguishes one role's template from another's.
pub(super) struct RoleTemplate<'a> {
    pub(super) role: &'a str,
    /// The image of its container; empty for none.
    pub(super) image: &'a str,
    pub(super) requests: &'a Resources,
    pub(super) limits: &'a Resources,
    /// How long a pod may take to stop; none for Kubernetes' default.
    pub(super) grace_seconds: Option<u32>,
    /// What the cluster's owner adds.
    pub(super) additions: &'a PodAdditions,
}

impl RoleTemplate<'_> {
    /// The template, with what all roles have in common.
    pub(super) fn build(&self, pods: &PodOptions) -> PodTemplate {
        let (volumes, mounts) = mounted(&pods.volume, self.role);

        let mut container = object(json!({
            "name": self.role,
            "imagePullPolicy": pods.image_pull_policy.as_str(),
            "resources": {"requests": self.requests, "limits": self.limits},
        }));
        put(&mut container, "image", json!(self.image));
        put(&mut container, "env", Value::Array(self.env(pods)));
        put(&mut container, "volumeMounts", Value::Array(mounts));

        let mut spec = object(json!({"containers": [container], "restartPolicy": pods.restart_policy.as_str()}));
        put(&mut spec, "volumes", Value::Array(volumes));
        put(&mut spec, "affinity", Value::Object(self.additions.affinity.clone()));
        put(&mut spec, "tolerations", json!(self.additions.tolerations));
        if let Some(seconds) = self.grace_seconds {
            spec.insert("terminationGracePeriodSeconds".to_owned(), json!(seconds));
        }

        let mut metadata = Map::new();
        put(&mut metadata, "labels", json!(self.additions.labels));
        put(&mut metadata, "annotations", json!(self.additions.annotations));

        PodTemplate::new(json!({"metadata": metadata, "spec": spec}), self.role)
            .expect("the pod has a container whose resources are quantities")
    }

    /// The variables of the container. What the cluster's owner adds replaces what the user gives.
    fn env(&self, pods: &PodOptions) -> Vec<Value> {
        let added = &self.additions.env;
        let kept = pods.envs.0.iter().filter(|(name, _)| added.iter().all(|variable| variable.name != *name));
        kept.map(|(name, value)| json!({"name": name, "value": value}))
            .chain(added.iter().map(|variable| json!(variable)))
            .collect()
    }
}

/// The volumes of a pod and where they are mounted. What is mounted twice is one volume with two mounts.
fn mounted(volumes: &Volumes, role: &str) -> (Vec<Value>, Vec<Value>) {
    let mut sources: Vec<&VolumeSource> = Vec::new();
    let mut mounts = Vec::new();
    for mount in &volumes.0 {
        let index = sources.iter().position(|source| **source == mount.source).unwrap_or_else(|| {
            sources.push(&mount.source);
            sources.len() - 1
        });
        let mut json = object(json!({"name": volume_name(role, index), "mountPath": mount.mount_path}));
        if let Some(path) = &mount.sub_path {
            json.insert("subPath".to_owned(), json!(path));
        }
        mounts.push(Value::Object(json));
    }
    let volumes = sources.iter().enumerate().map(|(index, source)| volume(volume_name(role, index), source));
    (volumes.collect(), mounts)
}

fn volume(name: String, source: &VolumeSource) -> Value {
    match source {
        VolumeSource::Claim(claim) => {
            json!({"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": false}})
        }
        VolumeSource::HostPath { path, kind: None } => json!({"name": name, "hostPath": {"path": path}}),
        VolumeSource::HostPath { path, kind: Some(kind) } => {
            json!({"name": name, "hostPath": {"path": path, "type": kind}})
        }
    }
}

fn volume_name(role: &str, index: usize) -> String {
    format!("{role}-volume-{index}")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => unreachable!("an object was written, not {other}"),
    }
}

/// Adds what is not empty.
fn put(map: &mut Map<String, Value>, key: &str, value: Value) {
    let empty = match &value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    if !empty {
        map.insert(key.to_owned(), value);
    }
}
