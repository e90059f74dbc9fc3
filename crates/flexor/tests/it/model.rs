//! Histories of a job, and the pure controller that plays them at once. The laptop cluster and the operator play the
//! same histories in their worlds and come to the same states.

pub mod history;
pub mod plan;
pub mod pure;

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_model::Job;

/// The job that a manifest describes.
pub fn job_of_manifest(manifest: &str) -> Job {
    let report = manifest::check(manifest.as_bytes());
    let verdict = report.documents.into_iter().next().unwrap().verdict;
    let Verdict::Accepted { subject, .. } = verdict else { panic!("the manifest is refused: {verdict:?}") };
    let Subject::Job(job) = *subject else { panic!("the manifest is no job") };
    job
}
