//! `--cluster_spec_json`: what a cluster's owner adds to every pod.
//!
//! It says in JSON what `--cluster_spec` says in Python, which cannot be run here. `pod_spec` is for the pods of all
//! roles; what a role has of its own is laid over it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::value::{OptionValue, Refusal, Remark};
use crate::finding::quoted;

/// Additions to the pods of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSpec {
    /// For the pods of every role.
    #[serde(skip_serializing_if = "PodAdditions::is_empty")]
    pub pod_spec: PodAdditions,
    /// For the master.
    #[serde(skip_serializing_if = "PodAdditions::is_empty")]
    pub master_pod_spec: PodAdditions,
    /// For the parameter servers.
    #[serde(skip_serializing_if = "PodAdditions::is_empty")]
    pub ps_pod_spec: PodAdditions,
    /// For the workers.
    #[serde(skip_serializing_if = "PodAdditions::is_empty")]
    pub worker_pod_spec: PodAdditions,
    /// For services. Kept, but nothing reads it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub service_spec: Map<String, Value>,
    /// What no release knows.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// What is added to a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAdditions {
    /// Labels beside those of the dialect.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Where the pod should run.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub affinity: Map<String, Value>,
    /// Which taints it tolerates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Map<String, Value>>,
    /// Variables of the main container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Variable>,
    /// What no release knows.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A variable as a pod has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, where it is a plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Everything else, such as `valueFrom`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ClusterSpec {
    fn parts(&mut self) -> [(&'static str, &mut PodAdditions); 4] {
        [
            ("pod_spec", &mut self.pod_spec),
            ("master_pod_spec", &mut self.master_pod_spec),
            ("ps_pod_spec", &mut self.ps_pod_spec),
            ("worker_pod_spec", &mut self.worker_pod_spec),
        ]
    }

    /// Takes away what nothing knows, with a remark on each.
    fn drop_unknown(&mut self, remarks: &mut Vec<Remark>) {
        let mut dropped = Vec::from_iter(std::mem::take(&mut self.unknown).into_iter().map(|(key, _)| key));
        for (part, additions) in self.parts() {
            let unknown = std::mem::take(&mut additions.unknown);
            dropped.extend(unknown.into_iter().map(|(key, _)| format!("{part}.{key}")));
        }
        remarks.extend(dropped.iter().map(|key| Remark::unused(format!("unknown key {}, ignored", quoted(key)))));
        if !self.service_spec.is_empty() {
            remarks.push(Remark::unused("service_spec has no effect; services are created as the job needs them"));
        }
    }
}

impl PodAdditions {
    /// These, with what one role has of its own laid over them.
    #[must_use]
    pub fn overlaid(&self, own: &Self) -> Self {
        let mut both = self.clone();
        both.labels.extend(own.labels.clone());
        both.annotations.extend(own.annotations.clone());
        if !own.affinity.is_empty() {
            both.affinity.clone_from(&own.affinity);
        }
        both.tolerations.extend(own.tolerations.clone());
        both.env.retain(|variable| own.env.iter().all(|other| other.name != variable.name));
        both.env.extend(own.env.clone());
        both
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl OptionValue for ClusterSpec {
    const EXPECTS: &'static str = "JSON";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut spec: Self = serde_json::from_str(text).map_err(|error| {
            Refusal::wrong_type(
                format!("not a valid cluster specification: {error}"),
                r#"expected JSON such as {"pod_spec": {"labels": {"team": "a"}}}"#,
            )
        })?;
        spec.drop_unknown(remarks);
        Ok(spec)
    }

    fn write(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        serde_json::to_string(self).expect("maps with text keys can always be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{
        "pod_spec": {"labels": {"team": "a", "tier": "x"}, "env": [{"name": "A", "value": "1"}]},
        "worker_pod_spec": {
            "labels": {"tier": "w"}, "annotations": {"note": "n"},
            "affinity": {"nodeAffinity": {}}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        }
    }"#;

    #[test]
    fn what_a_role_has_of_its_own_is_laid_over_what_all_have() {
        let mut remarks = Vec::new();
        let spec = ClusterSpec::read(SPEC, &mut remarks).unwrap();
        let worker = spec.pod_spec.overlaid(&spec.worker_pod_spec);
        assert_eq!(Vec::from_iter(worker.labels), [("team".into(), "a".into()), ("tier".into(), "w".into())]);
        assert_eq!((worker.env.len(), worker.env[0].value.as_deref()), (1, None));
        assert_eq!(worker.tolerations.len(), 1);
        assert_eq!(remarks, []);
        assert_eq!(ClusterSpec::read(&spec.write(), &mut remarks), Ok(spec));
    }

    #[test]
    fn keys_that_nothing_reads_are_remarked_on() {
        let mut remarks = Vec::new();
        let text = r#"{"pods": {}, "ps_pod_spec": {"nodeName": "n"}, "service_spec": {"type": "NodePort"}}"#;
        let spec = ClusterSpec::read(text, &mut remarks).unwrap();
        let said = Vec::from_iter(remarks.iter().map(|remark| remark.message.as_str()));
        assert!(said[0].contains("`pods`") && said[1].contains("`ps_pod_spec.nodeName`"), "{said:?}");
        assert!(said[2].contains("service_spec"));
        assert_eq!(ClusterSpec::read(&spec.write(), &mut Vec::new()), Ok(spec));
    }

    #[test]
    fn what_is_no_json_of_this_form_is_refused_with_the_place() {
        for text in ["{", "[]", "1", r#"{"pod_spec": {"labels": ["a"]}}"#, r#"{"pod_spec": {"env": [{"value": "1"}]}}"#]
        {
            let refusal = ClusterSpec::read(text, &mut Vec::new()).unwrap_err();
            assert!(refusal.message.contains("line 1") && refusal.help.contains("pod_spec"), "{text}: {refusal:?}");
        }
    }
}
