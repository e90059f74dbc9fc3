//! A kind of manifest: what a dialect has to say about one custom resource.

use std::sync::OnceLock;

use flexor_model::Reason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Finding,
    manifest::{Judge, Subject},
    schema,
};

/// The label, key and value, of every definition that is Flexor's. The originals' definitions have the same names and
/// lack it. The key is Flexor's own, so that labels which an installation sets on all its objects leave it alone.
pub const DEFINITION_LABEL: (&str, &str) = ("flexor.dev/definition", "true");

/// One custom resource of one dialect.
pub struct Kind {
    /// The dialect.
    pub dialect: &'static str,
    /// Its API group.
    pub group: &'static str,
    /// The version that is served.
    pub version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Whether it describes changes of jobs, not jobs.
    pub is_plan: bool,
    derived: fn() -> CustomResourceDefinition,
    read: fn(&Value) -> Result<Reading<Subject>, Finding>,
    judge: OnceLock<Judge>,
}

/// What was understood of an object.
pub struct Reading<T> {
    /// What it means.
    pub subject: T,
    /// What was noticed on the way; no errors among them.
    pub findings: Vec<Finding>,
}

impl Kind {
    pub(crate) const fn new(
        dialect: &'static str,
        [group, version, kind]: [&'static str; 3],
        derived: fn() -> CustomResourceDefinition,
        read: fn(&Value) -> Result<Reading<Subject>, Finding>,
    ) -> Self {
        Self { dialect, group, version, kind, is_plan: false, derived, read, judge: OnceLock::new() }
    }

    /// The same as a kind of plans.
    pub(crate) const fn of_plans(mut self) -> Self {
        self.is_plan = true;
        self
    }

    /// Its definition, as a cluster gets it.
    pub fn crd(&self) -> CustomResourceDefinition {
        let mut crd = schema::without_nulls((self.derived)());
        let (key, value) = DEFINITION_LABEL;
        crd.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        crd
    }

    /// What an object means that fits its schema and keeps its rules, as an API server has checked.
    ///
    /// # Errors
    ///
    /// What schemas and rules cannot tell: a quantity or a pod template that cannot be read.
    pub fn read(&self, json: &Value) -> Result<Reading<Subject>, Finding> {
        (self.read)(json)
    }

    /// The schema and rules, made when first asked for.
    pub(crate) fn judge(&self) -> &Judge {
        self.judge.get_or_init(|| Judge::new(&schema::of(&self.crd())))
    }
}

impl<T> Reading<T> {
    /// The same about something made from it.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U) -> Reading<U> {
        Reading { subject: make(self.subject), findings: self.findings }
    }
}

/// An object as its Rust type, without what only the API server writes. The schema has been held against it, so an
/// error here is one that schemas cannot tell.
pub(crate) fn typed<T: DeserializeOwned>(json: &Value) -> Result<T, Finding> {
    let mut json = json.clone();
    if let Some(object) = json.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = json["metadata"].as_object_mut() {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    serde_path_to_error::deserialize(&json)
        .map_err(|error| Finding::new(Reason::InvalidValue, error.path().to_string(), error.inner().to_string()))
}
