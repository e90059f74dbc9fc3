//! The findings for people: what each document means, and every error and warning with its place.

use std::fmt::Write;

use anstream::adapter::strip_str;
use comfy_table::{Table, presets};
use flexor_dialects::{
    Finding,
    manifest::{Document, Subject, Verdict},
};
use flexor_model::{Job, Plan, PlanOrigin, RoleKind, Severity, Sizing, Strategy};

use super::{FileReport, Summary};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// One file.
pub fn file(file: &FileReport) -> String {
    let mut out = String::new();
    if let Some(error) = &file.unread {
        let _ = writeln!(out, "{}: {RED}error:{PLAIN} {error}", file.file);
    }
    if let Some(finding) = &file.report.unreadable {
        out.push_str(&line(&file.file, finding));
    }
    if out.is_empty() && file.report.documents.is_empty() {
        let _ = writeln!(out, "{}: {DIM}empty{PLAIN}", file.file);
    }
    for document in &file.report.documents {
        out.push_str(&one(&file.file, document));
    }
    out
}

/// The last line.
pub fn summary(summary: &Summary) -> String {
    let mut parts = vec![format!("{} accepted", summary.accepted), format!("{} refused", summary.refused)];
    if summary.skipped > 0 {
        parts.push(format!("{} skipped", summary.skipped));
    }
    if summary.unreadable_files > 0 {
        parts.push(format!("{} unreadable", plural(summary.unreadable_files, "file")));
    }
    parts.push(plural(summary.warnings, "warning"));
    parts.join(", ")
}

fn plural(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

fn one(file: &str, document: &Document) -> String {
    let place = format!("{file}:{}", document.at.line);
    let named = match (document.kind.as_str(), document.name.as_str()) {
        ("", _) => "no Kubernetes object".to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind} {name}"),
    };
    let mut out = match &document.verdict {
        Verdict::Skipped => format!("{DIM}{place}: {named}: skipped, not a kind of ours{PLAIN}\n"),
        Verdict::Refused { dialect, .. } => {
            let dialect = dialect.map(|dialect| format!(" ({dialect})")).unwrap_or_default();
            format!("{place}: {BOLD}{named}{PLAIN}{dialect}: {RED}refused{PLAIN}\n")
        }
        Verdict::Accepted { dialect, subject, .. } => {
            let meaning = match &**subject {
                Subject::Job(found) => job(found),
                Subject::Plan(found) => plan(found),
            };
            format!("{place}: {BOLD}{named}{PLAIN} ({dialect}): {meaning}")
        }
    };
    for finding in document.findings() {
        out.push_str(&line(file, finding));
    }
    out
}

fn line(file: &str, finding: &Finding) -> String {
    let place = finding.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
    let (colour, severity) = match finding.severity {
        Severity::Error => (RED, "error"),
        Severity::Warning => (YELLOW, "warning"),
    };
    let field = if finding.field.is_empty() { String::new() } else { format!("{BOLD}{}{PLAIN}: ", finding.field) };
    let help = finding.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    let reason = finding.reason;
    format!("  {file}{place}: {colour}{severity}:{PLAIN} {field}{}{help} {DIM}[{reason}]{PLAIN}\n", finding.message)
}

fn job(job: &Job) -> String {
    let strategy = match job.strategy {
        Strategy::ParameterServer => "parameter-server job",
        Strategy::AllReduce => "all-reduce job",
        Strategy::Local => "local job",
        Strategy::Custom => "job of its own kind",
    };
    let sizing = match job.sizing {
        Sizing::Manual => "sized by its user",
        Sizing::Job => "sized by its master",
        Sizing::Cluster => "sized by the cluster's planner",
    };
    let ceiling = if job.ceiling.is_empty() { String::new() } else { format!(", within {}", job.ceiling) };
    let suspended = if job.suspended { ", suspended" } else { "" };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["ROLE", "KIND", "REPLICAS", "RANGE", "REQUESTS", "IMAGE"]);
    for role in &job.roles {
        let kind = match role.kind {
            RoleKind::Master => "master",
            RoleKind::ParameterServer => "parameter server",
            RoleKind::Chief => "chief",
            RoleKind::Worker => "worker",
            RoleKind::Evaluator => "evaluator",
            RoleKind::Other => "other",
        };
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.add_row([
            role.name.to_string(),
            kind.to_owned(),
            role.replicas.to_string(),
            role.range.to_string(),
            or_dash(role.requests.to_string()),
            or_dash(role.template.main.image.clone()),
        ]);
    }
    let rows: String = table.lines().map(|line| format!("   {}\n", strip_str(line.trim_end()))).collect();
    format!("{strategy}, {sizing}{ceiling}{suspended}\n{rows}")
}

fn plan(plan: &Plan) -> String {
    let origin = match plan.origin {
        PlanOrigin::Manual => "manual",
        PlanOrigin::Auto => "automatic",
    };
    let mut steps = Vec::new();
    for (role, change) in &plan.roles {
        let count = change.replicas.map(|n| format!("{n} replicas")).unwrap_or_default();
        let size = if change.resources.is_empty() { String::new() } else { format!("of {}", change.resources) };
        let words: Vec<&str> = [count.as_str(), size.as_str()].into_iter().filter(|word| !word.is_empty()).collect();
        steps.push(format!("{role}: {}", words.join(" ")));
    }
    for (verb, pods) in [("create", &plan.create), ("remove", &plan.remove), ("migrate", &plan.migrate)] {
        for pod in pods {
            let named =
                pod.name.clone().or_else(|| pod.role.as_ref().map(|role| format!("a {role}"))).unwrap_or_default();
            let size = if pod.resources.is_empty() { String::new() } else { format!(" to {}", pod.resources) };
            steps.push(format!("{verb} {named}{size}"));
        }
    }
    if steps.is_empty() {
        steps.push("changes nothing".to_owned());
    }
    format!("{origin} plan for {}\n{}", plan.job, steps.iter().map(|step| format!("    {step}\n")).collect::<String>())
}
