//! The template of a role's pods: the user's JSON as it is, and a view of the few fields that Flexor reads.
//!
//! Every view reads from the JSON, so the two cannot disagree. [`PodTemplate::new`] checks once that they can be read.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{LONGEST_SECONDS, Quantity, Resources, expansion};

/// A pod template with a main container, whose resources are quantities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct PodTemplate {
    json: Value,
    /// The index of the main container in `spec.containers`.
    main: usize,
}

#[derive(Deserialize)]
struct Stored {
    json: Value,
    main: usize,
}

/// Why JSON is no pod template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct PodTemplateError {
    /// Where in the template: `spec.containers[0].resources.limits.cpu`.
    pub path: String,
    pub problem: String,
}

/// The container that trains.
#[derive(Debug, Clone, Copy)]
pub struct MainContainer<'a>(&'a Value);

impl PodTemplate {
    /// A template whose main container is the one named `main`, or else the first.
    pub fn new(json: Value, main: &str) -> Result<Self, PodTemplateError> {
        let position = list(&json["spec"]["containers"]).iter().position(|container| container["name"] == main);
        Self::checked(json, position.unwrap_or(0))
    }

    fn checked(json: Value, main: usize) -> Result<Self, PodTemplateError> {
        if list(&json["spec"]["containers"]).get(main).is_none_or(|container| !container.is_object()) {
            let problem = "has no containers".to_owned();
            return Err(PodTemplateError { path: "spec.containers".to_owned(), problem });
        }
        for kind in ["containers", "initContainers"] {
            for (i, container) in list(&json["spec"][kind]).iter().enumerate() {
                expansion::check(container).map_err(|(field, problem)| PodTemplateError {
                    path: format!("spec.{kind}[{i}].{field}"),
                    problem,
                })?;
                for part in ["requests", "limits"] {
                    read(&container["resources"][part])
                        .map_err(|error| error.below(&format!("spec.{kind}[{i}].resources.{part}")))?;
                }
            }
        }
        let grace = &json["spec"]["terminationGracePeriodSeconds"];
        if grace.as_u64().is_some_and(|seconds| seconds > LONGEST_SECONDS) {
            let problem = format!("{grace} seconds are more than {LONGEST_SECONDS}, the most that a pod can wait");
            return Err(PodTemplateError { path: "spec.terminationGracePeriodSeconds".to_owned(), problem });
        }
        Ok(Self { json, main })
    }

    /// The whole template, with every field, known to us or not.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The index of the main container in `spec.containers`.
    pub fn main_index(&self) -> usize {
        self.main
    }

    pub fn main(&self) -> MainContainer<'_> {
        MainContainer(&self.json["spec"]["containers"][self.main])
    }

    /// What one pod requests, as [`requests_of`] counts it.
    pub fn requests(&self) -> Resources {
        requests_of(&self.json["spec"])
    }

    /// The termination grace period, where the template has one.
    pub fn grace(&self) -> Option<Duration> {
        self.json["spec"]["terminationGracePeriodSeconds"].as_u64().map(Duration::from_secs)
    }
}

impl<'a> MainContainer<'a> {
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub fn image(self) -> Option<&'a str> {
        self.0["image"].as_str()
    }

    pub fn command(self) -> Vec<&'a str> {
        texts(&self.0["command"])
    }

    pub fn args(self) -> Vec<&'a str> {
        texts(&self.0["args"])
    }

    /// The value of a variable that is a plain text.
    pub fn env(self, name: &str) -> Option<&'a str> {
        let variable = list(&self.0["env"]).iter().find(|variable| variable["name"] == name)?;
        variable["value"].as_str()
    }

    /// Its requests. A resource with a limit and no request is requested up to its limit, as Kubernetes has it.
    pub fn requests(self) -> Resources {
        requests(self.0)
    }

    pub fn limits(self) -> Resources {
        read(&self.0["resources"]["limits"]).unwrap_or_default()
    }
}

/// What a pod with this spec requests: its containers together, or more if its init containers need more.
///
/// The overhead of a runtime class and pod-level resources are not counted.
pub fn requests_of(spec: &Value) -> Resources {
    let mut running = Resources::default();
    let mut starting = Resources::default();
    for container in list(&spec["initContainers"]) {
        let requested = requests(container);
        if container["restartPolicy"] == "Always" {
            running = running.plus(&requested);
            starting = starting.or_more(&running);
        } else {
            starting = starting.or_more(&running.plus(&requested));
        }
    }
    for container in list(&spec["containers"]) {
        running = running.plus(&requests(container));
    }
    running.or_more(&starting)
}

fn requests(container: &Value) -> Resources {
    let limits = read(&container["resources"]["limits"]).unwrap_or_default();
    let asked = read(&container["resources"]["requests"]).unwrap_or_default();
    limits.iter().chain(asked.iter()).collect()
}

fn read(quantities: &Value) -> Result<Resources, PodTemplateError> {
    let nothing = Map::new();
    let pairs = quantities.as_object().unwrap_or(&nothing).iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let quantity: Quantity =
            text.parse().map_err(|error| PodTemplateError { path: name.clone(), problem: format!("{error}") })?;
        Ok((name.clone(), quantity))
    });
    pairs.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

impl PodTemplateError {
    fn below(self, path: &str) -> Self {
        Self { path: format!("{path}.{}", self.path), ..self }
    }
}

impl TryFrom<Stored> for PodTemplate {
    type Error = PodTemplateError;

    fn try_from(stored: Stored) -> Result<Self, PodTemplateError> {
        Self::checked(stored.json, stored.main)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(spec: Value) -> PodTemplate {
        PodTemplate::new(json!({ "spec": spec }), "main").unwrap()
    }

    #[test]
    fn a_pod_requests_what_the_scheduler_sets_aside() {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let pod = template(json!({
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": asks("1")},
                {"name": "load", "resources": asks("4")},
            ],
            "containers": [{"name": "main", "resources": asks("2")}, {"name": "log", "resources": {"limits": {"cpu": 0.5}}}],
        }));
        assert_eq!(pod.requests().to_string(), "cpu=5");
        assert_eq!(pod.main().requests().to_string(), "cpu=2");
    }

    #[test]
    fn the_main_container_is_the_one_with_its_name_or_the_first() {
        let pod = template(json!({"containers": [{"name": "a"}, {"name": "main", "image": "x", "command": ["y"]}]}));
        assert_eq!((pod.main().name(), pod.main().image(), pod.main().command()), ("main", Some("x"), vec!["y"]));
        assert_eq!(template(json!({"containers": [{"name": "a"}, {"name": "b"}]})).main().name(), "a");
    }

    #[test]
    fn a_template_that_cannot_be_read_is_refused() {
        assert!(PodTemplate::new(json!({"spec": {"containers": []}}), "main").is_err());
        let error = PodTemplate::new(
            json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "4 Gi"}}}]}}),
            "main",
        );
        assert_eq!(error.unwrap_err().path, "spec.containers[0].resources.limits.cpu");
        assert!(serde_json::from_value::<PodTemplate>(json!({"json": {}, "main": 3})).is_err());
    }

    #[test]
    fn a_template_survives_being_stored() {
        let pod = template(json!({"containers": [{"name": "log", "image": "l"}, {"name": "main", "image": "m"}]}));
        let again: PodTemplate = serde_json::from_str(&serde_json::to_string(&pod).unwrap()).unwrap();
        assert_eq!((again.main().image(), &again), (Some("m"), &pod));
    }

    /// The checked-in inputs of the fuzz target `pod_template`.
    #[test]
    fn the_corpus_is_taken_or_refused_with_the_place() {
        let read =
            |text: &str| PodTemplate::new(serde_json::from_str(text).unwrap(), "main").map_err(|error| error.path);
        assert!(read(include_str!("../../../fuzz/corpus/pod_template/plain")).is_ok());
        assert!(read(include_str!("../../../fuzz/corpus/pod_template/quantities")).is_ok());
        for (wrong, path) in [
            (include_str!("../../../fuzz/corpus/pod_template/doubling"), "spec.containers[0].env[5].value"),
            (include_str!("../../../fuzz/corpus/pod_template/no_containers"), "spec.containers"),
            (include_str!("../../../fuzz/corpus/pod_template/endless_grace"), "spec.terminationGracePeriodSeconds"),
        ] {
            assert_eq!(read(wrong), Err(path.to_owned()));
        }
    }
}
