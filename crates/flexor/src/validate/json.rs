//! The output of `-o json`.
//!
//! Its format is described in `docs/guide/validate.md` and stable: fields may be added, but none is removed, renamed or
//! given another meaning. The types here define the format. Types of the model and of the dialects never reach the
//! output, so they may change.

mod subject;

use flexor_dialects::manifest::{Subject, Verdict};
use serde::Serialize;

use self::subject::{Job, Plan};
use super::{FileReport, summary::Summary};

#[derive(Serialize)]
pub struct ValidateOutput<'a> {
    files: Vec<File<'a>>,
    summary: &'a Summary,
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Finding<'a>>,
    documents: Vec<Document<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    at: Position,
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'a str>,
    findings: Vec<Finding<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan<'a>>,
}

#[derive(Serialize)]
struct Position {
    line: u32,
    column: u32,
}

#[derive(Serialize)]
struct Finding<'a> {
    severity: &'static str,
    reason: &'static str,
    field: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

pub fn output<'a>(files: &'a [FileReport], summary: &'a Summary) -> ValidateOutput<'a> {
    ValidateOutput { files: files.iter().map(File::from).collect(), summary }
}

impl<'a> From<&'a FileReport> for File<'a> {
    fn from(file: &'a FileReport) -> Self {
        let (error, documents) = match &file.contents {
            Ok(documents) => (None, documents.iter().map(Document::from).collect()),
            Err(error) => (Some(Finding::from(error)), Vec::new()),
        };
        Self { file: &file.name, error, documents }
    }
}

impl<'a> From<&'a flexor_dialects::manifest::Document> for Document<'a> {
    fn from(document: &'a flexor_dialects::manifest::Document) -> Self {
        let (verdict, dialect, subject) = match &document.verdict {
            Verdict::Skipped => ("skipped", None, None),
            Verdict::Refused { dialect, .. } => ("refused", *dialect, None),
            Verdict::Accepted { dialect, subject, .. } => ("accepted", Some(*dialect), Some(&**subject)),
        };
        let (job, plan) = match subject {
            Some(Subject::Job(job)) => (Some(Job::from(job)), None),
            Some(Subject::Plan(plan)) => (None, Some(Plan::from(plan))),
            None => (None, None),
        };
        Self {
            at: Position { line: document.at.line, column: document.at.column },
            api_version: &document.api_version,
            kind: &document.kind,
            name: &document.name,
            verdict,
            dialect,
            findings: document.findings().iter().map(Finding::from).collect(),
            job,
            plan,
        }
    }
}

impl<'a> From<&'a flexor_dialects::Finding> for Finding<'a> {
    fn from(finding: &'a flexor_dialects::Finding) -> Self {
        Self {
            severity: if finding.is_error() { "error" } else { "warning" },
            reason: finding.reason.as_str(),
            field: &finding.field,
            message: &finding.message,
            help: finding.help.as_deref(),
            line: finding.at.map(|at| at.line),
            column: finding.at.map(|at| at.column),
        }
    }
}
