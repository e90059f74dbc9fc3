//! `flexor validate`: finds files, lets the dialects check them, and prints the findings.
//!
//! ```text
//! paths ─ sources ─▶ bytes ─ flexor_dialects::manifest ─▶ documents with verdicts ─▶ text, json, exit code
//! ```
//!
//! This module has no rules of its own: only the dialects define valid manifests.

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

/// The report about one file.
struct FileReport {
    name: String,
    /// The documents of the file, or why it cannot be read.
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
    // With one of the two fields it is meant to be a manifest, and the other one is missing.
    if no_object && document.api_version.is_empty() && document.kind.is_empty() {
        return Document { verdict: Verdict::Skipped, ..document };
    }
    document
}
