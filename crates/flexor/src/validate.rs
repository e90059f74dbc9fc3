//! `flexor validate`: reads files, asks the dialects, prints what they say.

mod sources;
mod text;

use std::path::PathBuf;

use flexor_dialects::manifest::{self, Report, Verdict};
use flexor_model::Reason;
use serde::Serialize;

use self::sources::Source;
use crate::{
    exit::Exit,
    output::{self, Format},
};

/// What was found in all files.
#[derive(Serialize)]
struct Findings {
    files: Vec<FileReport>,
    summary: Summary,
}

/// What was found in one file.
#[derive(Serialize)]
struct FileReport {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<String>,
    #[serde(flatten)]
    report: Report,
}

/// Counts over all files.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    accepted: usize,
    refused: usize,
    skipped: usize,
    unreadable_files: usize,
    warnings: usize,
}

pub fn run(paths: &[PathBuf], format: Format) -> anyhow::Result<Exit> {
    let files: Vec<FileReport> = sources::find(paths).into_iter().map(look_at).collect();
    let summary = Summary::of(&files);
    let exit = if summary.refused + summary.unreadable_files > 0 { Exit::Failed } else { Exit::Ok };
    match format {
        Format::Json => output::json(&Findings { files, summary })?,
        Format::Text => {
            output::text(&files.iter().map(text::file).collect::<String>())?;
            anstream::eprintln!("{}", text::summary(&summary));
        }
    }
    Ok(exit)
}

fn look_at(source: Source) -> FileReport {
    let empty = Report { unreadable: None, documents: Vec::new() };
    match source.bytes {
        Err(error) => FileReport { file: source.name, unread: Some(error), report: empty },
        Ok(bytes) => {
            let mut report = manifest::check(&bytes);
            if source.found_in_folder {
                report.documents.iter_mut().for_each(overlook_other_yaml);
            }
            FileReport { file: source.name, unread: None, report }
        }
    }
}

/// A folder may hold YAML that has nothing to do with Kubernetes; only a file that was named must be a manifest.
fn overlook_other_yaml(document: &mut manifest::Document) {
    let no_object = |verdict: &Verdict| match verdict {
        Verdict::Refused { findings, .. } => findings.iter().all(|finding| finding.reason == Reason::NotAnObject),
        Verdict::Skipped | Verdict::Accepted { .. } => false,
    };
    if no_object(&document.verdict) {
        document.verdict = Verdict::Skipped;
    }
}

impl Summary {
    fn of(files: &[FileReport]) -> Self {
        let mut summary = Self::default();
        for file in files {
            summary.unreadable_files += usize::from(file.unread.is_some() || file.report.unreadable.is_some());
            summary.warnings += file.report.findings().filter(|finding| !finding.is_error()).count();
            for document in &file.report.documents {
                match document.verdict {
                    Verdict::Skipped => summary.skipped += 1,
                    Verdict::Refused { .. } => summary.refused += 1,
                    Verdict::Accepted { .. } => summary.accepted += 1,
                }
            }
        }
        summary
    }
}
