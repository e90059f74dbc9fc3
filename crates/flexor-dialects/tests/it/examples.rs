//! The examples of the repository, which users copy.

use std::fmt::Write;

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_model::{Job, LABEL_MAX};

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
fn names_made_from_an_example_fit_into_a_label() {
    let jobs = jobs();
    assert!(jobs.len() >= 5, "{} jobs", jobs.len());
    for job in jobs {
        assert!(job.longest_name() <= LABEL_MAX, "{}: {}", job.name, job.longest_name());
    }
}

#[test]
fn what_the_examples_mean() {
    let mut said = String::new();
    for job in jobs() {
        let _ = writeln!(said, "{}\n", serde_json::to_string_pretty(&job).unwrap());
    }
    insta::assert_snapshot!(said);
}
