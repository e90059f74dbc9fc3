//! A kind of manifest: what a dialect has to say about one custom resource.

use std::sync::OnceLock;

use flexor_model::Reason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Finding,
    manifest::{Judge, Subject},
};

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
    /// Its definition.
    pub crd: fn() -> CustomResourceDefinition,
    /// What an object that fits its schema means.
    pub(crate) read: fn(&Value) -> Result<Reading, Finding>,
    pub(crate) judge: OnceLock<Judge>,
}

/// What was understood of an object.
pub(crate) struct Reading {
    /// What it means; none if a finding is an error.
    pub(crate) subject: Option<Subject>,
    /// What was noticed on the way.
    pub(crate) findings: Vec<Finding>,
}

impl Kind {
    /// The schema and rules, made when first asked for.
    pub(crate) fn judge(&self) -> &Judge {
        self.judge.get_or_init(|| Judge::new(&schema_of(&(self.crd)())))
    }
}

/// The schema in a definition, as JSON.
fn schema_of(crd: &CustomResourceDefinition) -> Value {
    crd.spec
        .versions
        .first()
        .and_then(|version| version.schema.as_ref())
        .and_then(|schema| schema.open_api_v3_schema.as_ref())
        .and_then(|schema| serde_json::to_value(schema).ok())
        .expect("a definition made from a Rust type has one version with a schema")
}

/// An object as its Rust type. The schema has been held against it, so an error here is one that schemas cannot tell.
pub(crate) fn typed<T: DeserializeOwned>(json: &Value) -> Result<T, Finding> {
    serde_json::from_value(json.clone())
        .map_err(|error| Finding::new(Reason::InvalidValue, "spec", format!("cannot be understood: {error}")))
}
