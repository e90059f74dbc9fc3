//! The verdict on a document of one of our kinds: its schema, its rules, and what the dialect makes of it.
//!
//! Each step runs only on what the one before let through.

use flexor_model::Reason;
use serde_json::Value;

use super::{Subject, Verdict, metadata, node::Node, path::FieldPath, rules::Rules, schema_walk};
use crate::{Finding, kind::Kind, suggest};

/// A kind's schema and rules, ready to hold documents against. Made once per kind.
pub(crate) struct Judge {
    schema: Value,
    rules: Rules,
}

impl Judge {
    /// For a schema as it stands in a custom resource definition.
    pub(crate) fn new(kind_schema: &Value) -> Self {
        Self { schema: metadata::with_object_fields(kind_schema), rules: Rules::of(kind_schema) }
    }

    fn has_spec_field(&self, field: &str) -> bool {
        self.schema["properties"]["spec"]["properties"].get(field).is_some()
    }
}

pub(super) fn on(node: &Node, kind: &'static Kind) -> Verdict {
    let (subject, mut findings) = match understand(node, kind) {
        Ok((subject, warnings)) => (Some(subject), warnings),
        Err(findings) => (None, findings),
    };
    for finding in &mut findings {
        finish(finding, node, kind);
    }
    findings.sort_by_key(|finding| (finding.at, finding.severity));
    let dialect = kind.dialect;
    match subject {
        Some(subject) => Verdict::Accepted { dialect, subject: Box::new(subject), findings },
        None => Verdict::Refused { dialect: Some(dialect), findings },
    }
}

/// What the document means, with warnings; or why it means nothing.
fn understand(node: &Node, kind: &Kind) -> Result<(Subject, Vec<Finding>), Vec<Finding>> {
    let judge = kind.judge();
    let json = with_name(node.to_json());
    let mut findings = schema_walk::walk(&judge.schema, node);
    if json["metadata"].is_object() && json["metadata"]["name"].is_null() {
        findings.push(Finding::new(Reason::MissingField, "metadata.name", "is missing").help("add `name:`"));
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let broken = judge.rules.broken(&json);
    if !broken.is_empty() {
        return Err(broken);
    }
    let reading = kind.read(&json).map_err(|finding| vec![finding])?;
    Ok((reading.subject, reading.findings))
}

/// An object whose name the API server will make up has one to be judged by.
fn with_name(mut json: Value) -> Value {
    let made_up = json["metadata"]["generateName"].as_str().map(|prefix| format!("{prefix}xxxxx"));
    if let (Some(name), true) = (made_up, json["metadata"]["name"].is_null()) {
        json["metadata"]["name"] = name.into();
    }
    json
}

/// Adds what only the whole document tells: where a finding stands, and what to write instead.
fn finish(finding: &mut Finding, node: &Node, kind: &Kind) {
    if finding.at.is_none() {
        let path: FieldPath = finding.field.parse().unwrap_or_default();
        finding.at = Some(node.locate(&path));
    }
    if finding.reason == Reason::RuleBroken && finding.field == "metadata.name" && finding.help.is_none() {
        let name = node.get("metadata").and_then(|metadata| metadata.text("name")).unwrap_or_default();
        let mends = |name: &String| {
            let mut json = node.to_json();
            json["metadata"]["name"] = name.clone().into();
            kind.judge().rules.broken(&json).iter().all(|broken| broken.field != "metadata.name")
        };
        finding.help = suggest::better_name(name).filter(mends).map(|name| format!("write `{name}`"));
    }
    // The API server cannot afford to put numbers into its messages.
    if let (Reason::RuleBroken, Some(number)) =
        (finding.reason, node.number(&finding.field.parse().unwrap_or_default()))
    {
        finding.message = format!("is {number}; {}", finding.message);
    }
    let guessed = finding.help.as_ref().is_some_and(|help| help.starts_with("did you mean"));
    if let (Reason::UnknownField, Some(field), false) = (finding.reason, finding.field.strip_prefix("spec."), guessed) {
        let mut others = crate::kinds().filter(|other| !std::ptr::eq(*other, kind));
        if let Some(other) = others.find(|other| other.judge().has_spec_field(field)) {
            finding.help = Some(format!("it belongs to {} of {}", other.kind, other.group));
        }
    }
}
