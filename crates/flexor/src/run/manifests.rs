//! What is to be run: the jobs, plans and other objects of some files, all of them good and fit to run here.

use std::path::PathBuf;

use flexor_dialects::Finding;
use flexor_dialects::manifest::{self, Document, Subject, Verdict};
use flexor_local::objects::Object;
use flexor_local::pods::preflight;
use flexor_model::{Job, Plan};
use serde_json::Value;

use crate::output;
use crate::validate::sources;

/// What was found.
#[derive(Default)]
pub struct Wanted {
    /// ConfigMaps, Secrets and PriorityClasses, each with its manifest.
    pub objects: Vec<(Object, Value)>,
    /// Each with the manifest that it comes from.
    pub jobs: Vec<(Job, Value)>,
    /// Plans about them, or about others, each with its manifest.
    pub plans: Vec<(Plan, Value)>,
}

/// Everything in these files; nothing, with what is wrong on standard error, where anything is.
pub fn read(files: &[PathBuf]) -> Option<Wanted> {
    let mut wanted = Wanted::default();
    let mut refused = false;
    for source in sources::find(files) {
        let name = source.name.clone();
        let bytes = match source.read() {
            Ok(bytes) => bytes,
            Err(error) => {
                output::note(&format!("error: {name} cannot be read: {error}"));
                refused = true;
                continue;
            }
        };
        let report = manifest::check(&bytes);
        if let Some(finding) = &report.unreadable {
            tell(&name, finding);
            refused = true;
        }
        for document in report.documents {
            refused |= !wanted.take(&name, document);
        }
    }
    if wanted.is_empty() && !refused {
        output::note("error: there is no job in these files; `flexor validate FILE` says what is in them");
        refused = true;
    }
    (!refused).then_some(wanted)
}

impl Wanted {
    /// Whether nothing was found.
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.plans.is_empty() && self.objects.is_empty()
    }

    /// Takes a document of a file. Whether it is good; what is wrong with it is told.
    fn take(&mut self, file: &str, document: Document) -> bool {
        let (subject, findings) = match document.verdict {
            Verdict::Skipped => return self.take_other(file, document),
            Verdict::Refused { findings, .. } => (None, findings),
            Verdict::Accepted { subject, findings, .. } => (Some(*subject), findings),
        };
        findings.iter().for_each(|finding| tell(file, finding));
        match subject {
            Some(Subject::Job(job)) => {
                let preflight = preflight::of_manifest(&job);
                preflight.iter().for_each(|obstacle| output::note(&format!("{file}: error: {}: {obstacle}", job.name)));
                if preflight.is_empty() {
                    preflight::remarks(&job).iter().for_each(|remark| output::note(&format!("{file}: note: {remark}")));
                }
                self.jobs.push((job, document.object));
                preflight.is_empty()
            }
            Some(Subject::Plan(plan)) => {
                self.plans.push((plan, document.object));
                true
            }
            None => false,
        }
    }

    /// Takes a document of a kind that no dialect knows.
    fn take_other(&mut self, file: &str, document: Document) -> bool {
        let (kind, name) = (&document.kind, &document.name);
        match Object::read(&document.object) {
            Some(Ok(object)) => self.objects.push((object, document.object)),
            Some(Err(errors)) => {
                errors.iter().for_each(|error| output::note(&format!("{file}: error: {kind} {name}: {error}")));
                return false;
            }
            // Every claim has a folder.
            None if kind == "PersistentVolumeClaim" => {}
            None => output::note(&format!("{file}: {kind} {name} is none of the kinds that are run here")),
        }
        true
    }
}

fn tell(file: &str, finding: &Finding) {
    let kind = if finding.is_error() { "error" } else { "warning" };
    let place = finding.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
    output::note(&format!("{file}{place}: {kind}: {finding}"));
}
