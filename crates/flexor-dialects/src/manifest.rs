//! Manifests: from the bytes of a file to what each document in it means, or what is wrong with it.
//!
//! ```text
//! bytes ─ documents ─▶ texts ─ node ─▶ trees with lines ─ verdict ─▶ Job, Plan or findings
//! ```
//!
//! Every finding carries its line. Nothing here touches files or the network.

mod documents;
mod metadata;
mod node;
mod path;
mod rules;
mod schema_walk;
mod verdict;
mod which_kind;
mod yaml_trouble;

use flexor_model::{Job, Plan};

use self::{
    documents::Source,
    node::{Duplicates, Node},
};
use crate::{Finding, Position, finding::one_line};

pub(crate) use verdict::Judge;

/// The longest name that an object can have.
const LONGEST_NAME: usize = 253;

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Why the file is no text at all; then there are no documents.
    pub unreadable: Option<Finding>,
    /// The documents that are not empty, in order.
    pub documents: Vec<Document>,
}

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
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
    /// The object as JSON, unless something is wrong with it; what is none of ours was not looked at.
    pub object: serde_json::Value,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Of a kind that is none of ours.
    Skipped,
    /// Unusable: no YAML, no object, or of ours and wrong.
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
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A job.
    Job(Job),
    /// A change to a job.
    Plan(Plan),
}

/// Reads a file. Takes any bytes.
pub fn check(bytes: &[u8]) -> Report {
    match documents::cut(bytes) {
        Err(finding) => Report { unreadable: Some(finding), documents: Vec::new() },
        Ok(sources) => Report { unreadable: None, documents: sources.into_iter().flat_map(check_source).collect() },
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

/// The documents in one text: one, or as many as the list in it has objects.
fn check_source(source: Source<'_>) -> Vec<Document> {
    match node::read(source.text, source.first_line, Duplicates::Refused) {
        Ok(Some(node)) => unfold(&node).into_iter().map(check_document).collect(),
        Ok(None) => Vec::new(),
        Err(finding) => vec![unreadable_document(source, finding)],
    }
}

/// A document that is no YAML, or has a key twice. In a kind of somebody else's the latter is none of our business.
fn unreadable_document(source: Source<'_>, finding: Finding) -> Document {
    let begin = Position { line: source.first_line, column: 1 };
    let at = finding.at.map_or(begin, |at| Position { line: at.line + source.first_line - 1, ..at });
    let verdict = Verdict::Refused { dialect: None, findings: vec![finding.at(Some(at))] };
    match node::read(source.text, source.first_line, Duplicates::LastWins) {
        Ok(Some(node)) => {
            let mut documents = unfold(&node).into_iter().map(check_document);
            match documents.find(concerns_us) {
                Some(document) => Document { verdict, ..document },
                None => check_document(&node),
            }
        }
        Ok(None) | Err(_) => Document {
            at: begin,
            api_version: String::new(),
            kind: String::new(),
            name: String::new(),
            verdict,
            object: serde_json::Value::Null,
        },
    }
}

/// Whether a document that was read leniently is one that we would judge.
fn concerns_us(document: &Document) -> bool {
    let nameless = document.api_version.is_empty() && document.kind.is_empty();
    document.verdict != Verdict::Skipped && !nameless
}

/// The objects of a list such as `kubectl get -o yaml` prints; anything else is itself.
fn unfold(node: &Node) -> Vec<&Node> {
    let is_list = node.text("kind") == Some("List") && node.text("apiVersion") == Some("v1");
    match node.get("items").map(|items| &items.value) {
        Some(node::Value::List(items)) if is_list => items.iter().collect(),
        _ => vec![node],
    }
}

fn check_document(node: &Node) -> Document {
    let (api_version, kind) = (node.text("apiVersion").unwrap_or_default(), node.text("kind").unwrap_or_default());
    let metadata = node.get("metadata");
    let name = metadata.and_then(|m| m.text("name").or(m.text("generateName"))).unwrap_or_default();
    let verdict = match which_kind::of(node, api_version, kind) {
        Ok(Some(known)) => verdict::on(node, known),
        Ok(None) => Verdict::Skipped,
        Err(finding) => Verdict::Refused { dialect: None, findings: vec![finding] },
    };
    let is_good = matches!(verdict, Verdict::Accepted { .. } | Verdict::Skipped);
    Document {
        object: if is_good { node.to_json() } else { serde_json::Value::Null },
        at: node.at,
        api_version: one_line(api_version, LONGEST_NAME),
        kind: one_line(kind, LONGEST_NAME),
        name: one_line(name, LONGEST_NAME),
        verdict,
    }
}
