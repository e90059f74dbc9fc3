//! What is to be run: the jobs and plans of some files, all of them good.

use std::path::PathBuf;

use anyhow::Context;
use flexor_dialects::Finding;
use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_model::{Job, Plan};
use serde_json::Value;

use crate::output;
use crate::validate::sources;

/// What was found.
#[derive(Default)]
pub struct Wanted {
    /// Each with the manifest that it comes from.
    pub jobs: Vec<(Job, Value)>,
    /// Plans about them, or about others, each with its manifest.
    pub plans: Vec<(Plan, Value)>,
}

/// Everything in these files; nothing, with what is wrong on standard error, where anything is.
pub fn read(files: &[PathBuf]) -> anyhow::Result<Option<Wanted>> {
    let mut wanted = Wanted::default();
    let mut refused = false;
    for source in sources::find(files) {
        let name = source.name.clone();
        let bytes = source.read().map_err(anyhow::Error::msg).with_context(|| format!("{name} cannot be read"))?;
        let report = manifest::check(&bytes);
        let tell = |finding: &Finding| {
            let kind = if finding.is_error() { "error" } else { "warning" };
            output::note(&format!("{name}: {kind}: {finding}"));
        };
        report.unreadable.iter().for_each(tell);
        refused |= report.unreadable.is_some();
        for document in report.documents {
            match document.verdict {
                Verdict::Skipped => {
                    let (kind, object) = (&document.kind, &document.name);
                    output::note(&format!("{name}: {kind} {object} is none of the kinds that are run here"));
                }
                Verdict::Refused { findings, .. } => {
                    findings.iter().for_each(tell);
                    refused = true;
                }
                Verdict::Accepted { subject, findings, .. } => {
                    findings.iter().for_each(tell);
                    match *subject {
                        Subject::Job(job) => wanted.jobs.push((job, document.object)),
                        Subject::Plan(plan) => wanted.plans.push((plan, document.object)),
                    }
                }
            }
        }
    }
    if wanted.jobs.is_empty() && wanted.plans.is_empty() && !refused {
        output::note("error: there is no job in these files; `flexor validate FILE` says what is in them");
        refused = true;
    }
    Ok((!refused).then_some(wanted))
}
