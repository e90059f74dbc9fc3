//! The table of bad manifests: `testdata/bad`. The API server's verdicts on the same files are compared in the cluster
//! tier.

use std::fmt::Write;

use flexor_dialects::manifest::{self, Verdict};
use flexor_model::Reason;

use crate::manifest_files;

#[test]
fn every_bad_manifest_is_refused_with_line_field_and_reason() {
    let mut said = String::new();
    for file in manifest_files::below("testdata/bad") {
        let report = manifest::check(&file.bytes);
        assert!(report.has_errors(), "{} was accepted", file.path);
        let _ = writeln!(said, "{}\n  # {}", file.path, file.headline());
        for finding in report.findings().filter(|finding| finding.is_error()) {
            let at = finding.at.unwrap_or_else(|| panic!("{}: no line: {finding}", file.path));
            if finding.reason != Reason::InvalidYaml {
                assert!(!finding.field.is_empty(), "{}: no field: {finding}", file.path);
            }
            let _ = writeln!(said, "  {}:{} {finding} [{}]", at.line, at.column, finding.reason);
        }
    }
    insta::assert_snapshot!(said);
}

#[test]
fn every_bad_manifest_says_who_refuses_it() {
    for file in manifest_files::below("testdata/bad") {
        let (who, what) = file.headline().split_once(": ").unwrap_or_default();
        assert!(["both", "local only"].contains(&who) && !what.is_empty(), "{}: {}", file.path, file.headline());
    }
}

/// A document that is refused says nothing about a job, so that nobody can use half of it.
#[test]
fn a_refused_document_means_nothing() {
    for file in manifest_files::below("testdata/bad") {
        for document in manifest::check(&file.bytes).documents {
            if let Verdict::Accepted { findings, .. } = document.verdict {
                assert!(findings.iter().all(|finding| !finding.is_error()), "{}", file.path);
            }
        }
    }
}
