//! Reads manifests for `flexor run`, `flexor local up` and `flexor apply`: jobs, plans and other objects that passed
//! validation and preflight.

use std::collections::BTreeMap;
use std::path::PathBuf;

use flexor_dialects::Finding;
use flexor_dialects::manifest::{self, Document, Subject, Verdict};
use flexor_local::objects::Object;
use flexor_local::pods::preflight;
use flexor_model::{Job, Plan};
use serde_json::Value;

use super::expectations;
use crate::output;
use crate::validate::sources;
use crate::verbs::USUAL_NAMESPACE;

/// Accepted objects, each with its manifest.
#[derive(Default)]
pub struct Manifests {
    /// ConfigMaps, Secrets and PriorityClasses.
    pub objects: Vec<(Object, Value)>,
    pub jobs: Vec<(Job, Value)>,
    /// Plans for these or for other jobs.
    pub plans: Vec<(Plan, Value)>,
    /// Where each job is described, by namespace and name.
    places: BTreeMap<(String, String), String>,
}

/// Reads all objects of these files. Returns `None` if anything is refused; the errors go to standard error.
pub fn read(files: &[PathBuf]) -> Option<Manifests> {
    let mut manifests = Manifests::default();
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
            print(&name, finding);
            refused = true;
        }
        for document in report.documents {
            refused |= !manifests.add(&name, document);
        }
    }
    if manifests.is_empty() && !refused {
        output::note("error: there is no job in these files; `flexor validate FILE` shows what is in them");
        refused = true;
    }
    (!refused).then_some(manifests)
}

impl Manifests {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.plans.is_empty() && self.objects.is_empty()
    }

    /// Adds a document of a file. Prints its findings, and returns whether it is accepted.
    fn add(&mut self, file: &str, document: Document) -> bool {
        let (subject, findings) = match document.verdict {
            Verdict::Skipped => return self.add_other(file, document),
            Verdict::Refused { findings, .. } => (None, findings),
            Verdict::Accepted { subject, findings, .. } => (Some(*subject), findings),
        };
        findings.iter().for_each(|finding| print(file, finding));
        match subject {
            Some(Subject::Job(job)) => {
                let place = format!("{file}:{}:{}", document.at.line, document.at.column);
                let namespace = job.namespace.as_ref().map_or(USUAL_NAMESPACE, |namespace| namespace.as_str());
                if let Some(earlier) = self.places.insert((namespace.to_owned(), job.name.to_string()), place.clone()) {
                    output::note(&format!(
                        "{place}: error: job {} is described twice, also in {earlier}; give one of them another name, or \
                         leave it out",
                        job.name
                    ));
                    return false;
                }
                for warning in expectations::unmet(&job, &document.object) {
                    output::note(&format!("{file}: warning: {}: {warning}", job.name));
                }
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

    /// Adds a document of a kind that no dialect knows.
    fn add_other(&mut self, file: &str, document: Document) -> bool {
        let (kind, name) = (&document.kind, &document.name);
        match Object::read(&document.object) {
            Some(Ok(object)) => self.objects.push((object, document.object)),
            Some(Err(errors)) => {
                errors.iter().for_each(|error| output::note(&format!("{file}: error: {kind} {name}: {error}")));
                return false;
            }
            // The cluster provides a folder for every claim, so the object itself is not needed.
            None if kind == "PersistentVolumeClaim" => {}
            None => output::note(&format!(
                "{file}: {kind} {name} is ignored: the laptop cluster does not support this kind"
            )),
        }
        true
    }
}

fn print(file: &str, finding: &Finding) {
    let kind = if finding.is_error() { "error" } else { "warning" };
    let place = finding.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
    output::note(&format!("{file}{place}: {kind}: {finding}"));
}
