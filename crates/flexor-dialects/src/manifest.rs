//! Manifests: from the bytes of a file to what each document in it means, or what is wrong with it.
//!
//! ```text
//! bytes ─ node ─▶ tree with lines ─ schema_walk ─▶ fits its schema ─ rules ─▶ keeps its rules ─ Kind::read ─▶ Job, Plan
//! ```
//!
//! Each step runs only on what the one before let through, and every finding carries its line. Nothing here touches
//! files or the network.

mod metadata;
mod node;
mod path;
mod rules;
mod schema_walk;

use flexor_model::{Job, Plan, Reason};
use serde::Serialize;
use serde_json::Value;

use self::{node::Node, path::FieldPath, rules::Rules};
use crate::{Finding, Position, kind::Kind, suggest};

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Why the file could not be read at all; then there are no documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<Finding>,
    /// The documents that are not empty, in order.
    pub documents: Vec<Document>,
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Where it begins.
    pub at: Position,
    /// `apiVersion`, as far as it can be read.
    pub api_version: String,
    /// `kind`, as far as it can be read.
    pub kind: String,
    /// `metadata.name`, as far as it can be read.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "verdict")]
pub enum Verdict {
    /// Of a kind that is none of ours.
    Skipped,
    /// Of ours, and unusable.
    Refused {
        /// The dialect, where the kind is known.
        dialect: Option<&'static str>,
        /// What is wrong, and what else was noticed.
        findings: Vec<Finding>,
    },
    /// Of ours, and good.
    Accepted {
        /// The dialect.
        dialect: &'static str,
        /// What it means.
        subject: Box<Subject>,
        /// Warnings.
        findings: Vec<Finding>,
    },
}

/// What a document means.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A job.
    Job(Job),
    /// A change to a job.
    Plan(Plan),
}

/// Reads a file. Takes any bytes.
pub fn check(bytes: &[u8]) -> Report {
    match node::read(bytes) {
        Err(finding) => Report { unreadable: Some(finding), documents: Vec::new() },
        Ok(nodes) => {
            Report { unreadable: None, documents: nodes.iter().flat_map(unfold).map(check_document).collect() }
        }
    }
}

impl Report {
    /// Whether anything in the file is unusable.
    pub fn has_errors(&self) -> bool {
        self.unreadable.is_some() || self.documents.iter().any(|d| matches!(d.verdict, Verdict::Refused { .. }))
    }

    /// Every finding in the file, in order.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.unreadable.iter().chain(self.documents.iter().flat_map(Document::findings))
    }
}

impl Document {
    /// What was found in it.
    pub fn findings(&self) -> &[Finding] {
        match &self.verdict {
            Verdict::Skipped => &[],
            Verdict::Refused { findings, .. } | Verdict::Accepted { findings, .. } => findings,
        }
    }
}

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
}

/// The objects of a list such as `kubectl get -o yaml` prints; anything else is itself.
fn unfold(node: &Node) -> Vec<&Node> {
    let is_list = node.text("kind").is_some_and(|kind| kind.ends_with("List"));
    match node.get("items").map(|items| &items.value) {
        Some(node::Value::List(items)) if is_list => items.iter().collect(),
        _ => vec![node],
    }
}

fn check_document(node: &Node) -> Document {
    let text = |node: Option<&Node>, key| node.and_then(|node| node.text(key)).unwrap_or_default().to_owned();
    let api_version = text(Some(node), "apiVersion");
    let kind = text(Some(node), "kind");
    let name = text(node.get("metadata"), "name");
    let verdict = judge(node, &api_version, &kind);
    Document { at: node.at, api_version, kind, name, verdict }
}

fn judge(node: &Node, api_version: &str, kind: &str) -> Verdict {
    let refused = |finding: Finding| Verdict::Refused { dialect: None, findings: vec![finding] };
    if api_version.is_empty() || kind.is_empty() {
        let missing = if api_version.is_empty() { "apiVersion" } else { "kind" };
        return refused(
            Finding::new(Reason::NotAnObject, missing, "is missing, so this is no Kubernetes object").at(Some(node.at)),
        );
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let of_group: Vec<&Kind> = crate::kinds().filter(|known| known.group == group).collect();
    if of_group.is_empty() {
        return Verdict::Skipped;
    }
    let Some(known) = of_group.iter().find(|known| known.kind == kind) else {
        let names = of_group.iter().map(|known| known.kind);
        let help = match suggest::closest(kind, names.clone()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("{group} has {}", names.collect::<Vec<_>>().join(" and ")),
        };
        let finding = Finding::new(Reason::UnknownKind, "kind", format!("{group} has no kind `{kind}`"));
        return refused(finding.help(help).at(Some(node.locate(&FieldPath::default().key("kind")))));
    };
    if known.version != version {
        let finding = Finding::new(Reason::UnknownVersion, "apiVersion", format!("{kind} has no version `{version}`"));
        return refused(
            finding
                .help(format!("write {group}/{}", known.version))
                .at(Some(node.locate(&FieldPath::default().key("apiVersion")))),
        );
    }
    judge_kind(node, known)
}

fn judge_kind(node: &Node, kind: &'static Kind) -> Verdict {
    let judge = kind.judge();
    let dialect = kind.dialect;
    let findings = schema_walk::walk(&judge.schema, node);
    if !findings.is_empty() {
        return Verdict::Refused { dialect: Some(dialect), findings: in_order(findings) };
    }
    let json = node.to_json();
    let mut findings = judge.rules.broken(&json);
    let subject = if findings.is_empty() {
        match (kind.read)(&json) {
            Ok(reading) => {
                findings.extend(reading.findings);
                reading.subject
            }
            Err(finding) => {
                findings.push(finding);
                None
            }
        }
    } else {
        None
    };
    for finding in &mut findings {
        if finding.at.is_none() {
            let path: FieldPath = finding.field.parse().unwrap_or_default();
            finding.at = Some(node.locate(&path));
        }
    }
    let findings = in_order(findings);
    match subject {
        Some(subject) if findings.iter().all(|finding| !finding.is_error()) => {
            Verdict::Accepted { dialect, subject: Box::new(subject), findings }
        }
        _ => Verdict::Refused { dialect: Some(dialect), findings },
    }
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| (finding.at, finding.severity));
    findings
}
