//! `flexor validate`: finds files, asks the dialects about each, prints what they say.
//!
//! ```text
//! paths ─ sources ─▶ bytes ─ flexor_dialects::manifest ─▶ documents with verdicts ─▶ text, json, exit code
//! ```
//!
//! Nothing is judged here; what a manifest must be is known to the dialects alone.

mod json;
pub mod sources;
mod summary;
mod text;

use flexor_dialects::{
    Finding,
    manifest::{self, Document, Verdict},
};
use flexor_model::Reason;

pub use self::sources::is_standard_input;
use self::{
    sources::{Origin, Source},
    summary::Summary,
};
use crate::{
    cli::ValidateArgs,
    exit::Exit,
    output::{self, Format},
};

/// One file and what is in it.
struct FileReport {
    name: String,
    /// Its documents, or why nothing can be said about what is in it.
    contents: Result<Vec<Document>, Finding>,
}

pub fn run(args: &ValidateArgs) -> anyhow::Result<Exit> {
    let files: Vec<FileReport> = sources::find(&args.files).into_iter().map(report).collect();
    let summary = Summary::of(&files);
    match args.output {
        Format::Json => output::json(&json::output(&files, &summary))?,
        Format::Text => {
            output::text(&files.iter().map(text::file).collect::<String>())?;
            output::note(&text::summary(&summary));
        }
    }
    let failed = summary.has_failures() || (args.strict && summary.warnings > 0);
    Ok(if failed { Exit::Failure } else { Exit::Success })
}

fn report(source: Source) -> FileReport {
    let unread = |message: String| Finding::new(Reason::UnreadableInput, "", message);
    let contents = source.read().map_err(unread).and_then(|bytes| {
        let report = manifest::check(&bytes);
        report.unreadable.map_or(Ok(report.documents), Err)
    });
    let contents = contents.map(|documents| match source.origin {
        Origin::Named => documents,
        Origin::Found => documents.into_iter().map(overlook_other_yaml).collect(),
    });
    FileReport { name: source.name, contents }
}

/// A folder may hold YAML that has nothing to do with Kubernetes; only a file that was named must be a manifest.
fn overlook_other_yaml(document: Document) -> Document {
    let no_object = match &document.verdict {
        Verdict::Refused { findings, .. } => findings.iter().all(|finding| finding.reason == Reason::NotAnObject),
        Verdict::Skipped | Verdict::Accepted { .. } => false,
    };
    // With one of the two written down, somebody meant a manifest and forgot the other.
    if no_object && document.api_version.is_empty() && document.kind.is_empty() {
        return Document { verdict: Verdict::Skipped, ..document };
    }
    document
}
