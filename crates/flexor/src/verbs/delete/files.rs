//! Reads the objects to delete from manifests.

use std::path::PathBuf;

use flexor_dialects::Finding;
use flexor_dialects::manifest::{self, Document, Verdict};
use flexor_local::api::Resource;
use flexor_model::DnsLabel;

use super::Target;
use crate::output;
use crate::validate::sources;
use crate::verbs::args::USUAL_NAMESPACE;
use crate::verbs::{apply, cells, kinds};

/// The objects that these files name. Returns `None` if anything is refused; the errors go to standard error.
pub fn read(files: &[PathBuf], typed: Option<&DnsLabel>) -> anyhow::Result<Option<Vec<Target>>> {
    let mut targets: Vec<Target> = Vec::new();
    let mut refused = false;
    for source in sources::find(files) {
        let file = &source.name;
        let bytes = match source.read() {
            Ok(bytes) => bytes,
            Err(error) => {
                output::note(&format!("error: {file} cannot be read: {error}"));
                refused = true;
                continue;
            }
        };
        let report = manifest::check(&bytes);
        report.unreadable.iter().for_each(|finding| print(file, finding));
        refused |= report.unreadable.is_some();
        for document in report.documents {
            if let Verdict::Refused { findings, .. } = &document.verdict {
                findings.iter().filter(|finding| finding.is_error()).for_each(|finding| print(file, finding));
                refused = true;
                continue;
            }
            let target = target(file, &document, typed)?;
            targets.extend(target.filter(|target| !targets.contains(target)));
        }
    }
    if targets.is_empty() && !refused {
        output::note(
            "error: there is no object to delete in these files; `flexor validate FILE` shows what is in them",
        );
        refused = true;
    }
    // Deleting a job deletes its plans, so plans come first.
    targets.sort_by_key(|target| target.kinds.iter().all(|kind| kind.resource != Resource::Plans));
    Ok((!refused).then_some(targets))
}

/// The object of a document, if its kind is supported.
fn target(file: &str, document: &Document, typed: Option<&DnsLabel>) -> anyhow::Result<Option<Target>> {
    let (object, name) = (&document.object, &document.name);
    let Some(kind) = kinds::all().into_iter().find(|kind| kind.is_kind_of(object)) else {
        output::note(&format!(
            "{file}: {} {name} is ignored: the laptop cluster does not support this kind",
            document.kind
        ));
        return Ok(None);
    };
    let named = cells::text(&object["metadata"]["namespace"]).parse().ok();
    let namespace = apply::namespace(typed, named, object)?;
    let namespace = namespace.as_ref().map_or(USUAL_NAMESPACE, DnsLabel::as_str).to_owned();
    Ok(Some(Target { kinds: vec![kind], namespace, name: name.clone() }))
}

fn print(file: &str, finding: &Finding) {
    let place = finding.at.map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default();
    output::note(&format!("{file}{place}: error: {finding}"));
}
