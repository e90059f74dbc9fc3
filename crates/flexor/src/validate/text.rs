//! The text output: the job or plan of each document, and every error and warning with its position.

mod subject;

use flexor_dialects::{
    Finding,
    manifest::{Document, Subject, Verdict},
};

use super::{FileReport, summary::Summary};
use crate::output::on_one_line;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

pub fn file(file: &FileReport) -> String {
    let name = on_one_line(&file.name);
    match &file.contents {
        Err(finding) => line(&name, finding),
        Ok(documents) if documents.is_empty() => format!("{DIM}{name}: empty{PLAIN}\n"),
        Ok(documents) => documents.iter().map(|document| self::document(&name, document)).collect(),
    }
}

/// The last line of the output.
pub fn summary(summary: &Summary) -> String {
    let mut parts = vec![format!("{} accepted", summary.accepted), format!("{} refused", summary.refused)];
    for (n, word) in [(summary.skipped, "skipped"), (summary.unreadable, "unreadable"), (summary.empty, "empty")] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    parts.push(plural(summary.warnings, "warning"));
    parts.join(", ")
}

fn document(file: &str, document: &Document) -> String {
    let position = format!("{file}:{}", document.at.line);
    let named = match (on_one_line(&document.kind), on_one_line(&document.name)) {
        (kind, _) if kind.is_empty() => "document".to_owned(),
        (kind, name) if name.is_empty() => kind,
        (kind, name) => format!("{kind} {name}"),
    };
    let mut out = match &document.verdict {
        Verdict::Skipped if document.kind.is_empty() => {
            format!("{DIM}{position}: {named}: skipped: not a Kubernetes object{PLAIN}\n")
        }
        Verdict::Skipped => format!("{DIM}{position}: {named}: skipped: not a Flexor kind{PLAIN}\n"),
        Verdict::Refused { dialect, .. } => {
            let dialect = dialect.map(|dialect| format!(" ({dialect})")).unwrap_or_default();
            format!("{position}: {BOLD}{named}{PLAIN}{dialect}: {RED}refused{PLAIN}\n")
        }
        Verdict::Accepted { dialect, subject, .. } => {
            let meaning = match &**subject {
                Subject::Job(job) => subject::job(job),
                Subject::Plan(plan) => subject::plan(plan),
            };
            format!("{position}: {BOLD}{named}{PLAIN} ({dialect}): {meaning}")
        }
    };
    for finding in document.findings() {
        out.push_str("  ");
        out.push_str(&line(file, finding));
    }
    out
}

fn line(file: &str, finding: &Finding) -> String {
    let position = finding.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
    let (colour, severity) = if finding.is_error() { (RED, "error") } else { (YELLOW, "warning") };
    let field = match on_one_line(&finding.field) {
        field if field.is_empty() => field,
        field => format!("{BOLD}{field}{PLAIN}: "),
    };
    let message = on_one_line(&finding.message);
    let help = finding.help.as_ref().map(|help| format!("; {}", on_one_line(help))).unwrap_or_default();
    let reason = finding.reason;
    format!("{file}{position}: {colour}{severity}:{PLAIN} {field}{message}{help} {DIM}[{reason}]{PLAIN}\n")
}

fn plural(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}
