//! The examples of the repository, which users copy.

use std::fmt::Write;

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_model::{EnvValue, Job, Role};

use crate::manifest_files;

/// The jobs of all examples, by name.
pub fn jobs() -> Vec<Job> {
    let files = manifest_files::below("examples");
    let documents = files.iter().flat_map(|file| manifest::check(&file.bytes).documents);
    documents
        .filter_map(|document| match document.verdict {
            Verdict::Accepted { subject, .. } => match *subject {
                Subject::Job(job) => Some(job),
                Subject::Plan(_) => None,
            },
            Verdict::Skipped | Verdict::Refused { .. } => None,
        })
        .collect()
}

#[test]
fn every_example_is_accepted_without_a_warning() {
    for file in manifest_files::below("examples") {
        let report = manifest::check(&file.bytes);
        let said: Vec<String> = report.findings().map(ToString::to_string).collect();
        assert!(said.is_empty(), "{}: {said:?}", file.path);
    }
}

#[test]
fn no_example_contradicts_itself() {
    let jobs = jobs();
    assert!(jobs.len() >= 5, "{} jobs", jobs.len());
    for job in jobs {
        assert_eq!(job.contradictions(), Vec::<String>::new(), "{}", job.name);
    }
}

#[test]
fn what_the_examples_mean() {
    let mut said = String::new();
    for job in jobs() {
        let _ = writeln!(said, "{} ({}, {:?}, sized by {:?})", job.name, job.dialect, job.strategy, job.sizing);
        for role in &job.roles {
            describe(role, &mut said);
        }
    }
    insta::assert_snapshot!(said);
}

/// A role in a few lines: what its pods, service, labels and variables are called.
fn describe(role: &Role, said: &mut String) {
    let naming = &role.naming;
    let _ =
        writeln!(said, "  {}: {:?} {:?}, pod {} by {:?}", role.name, role.program, role.size, naming.pod, naming.ids);
    let _ = writeln!(said, "    {:?}, {:?}, {:?}", role.failures, role.critical, role.priority);
    if let Some(service) = &role.service {
        let ports: Vec<String> = service.ports.iter().map(|p| format!("{}={}", p.name, p.port)).collect();
        let by = service.selector.join(",");
        let _ = writeln!(said, "    service {} per {:?} by {by} {}", service.name, service.scope, ports.join(" "));
    }
    let ports: Vec<String> = role.ports.iter().map(|p| format!("{}={}", p.name, p.port)).collect();
    let labels: Vec<String> = naming.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let env: Vec<String> = role
        .env
        .iter()
        .map(|rule| match &rule.value {
            EnvValue::Literal(text) => format!("{}={text:?}", rule.name),
            EnvValue::Text(pattern) => format!("{}={pattern}", rule.name),
            EnvValue::Address { role, port } => format!("{}=<{role}:{port}>", rule.name),
            EnvValue::PodField(field) => format!("{}=<{field}>", rule.name),
            EnvValue::TfConfig => format!("{}=<cluster>", rule.name),
            EnvValue::SidecarHost { port } => format!("{}=<sidecar of :{port}>", rule.name),
        })
        .collect();
    for (what, words) in [("ports", ports), ("labels", labels), ("env", env)] {
        if !words.is_empty() {
            let _ = writeln!(said, "    {what} {}", words.join(" "));
        }
    }
}
