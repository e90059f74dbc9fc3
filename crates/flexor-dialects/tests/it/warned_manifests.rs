//! Manifests that are good but not all of which has an effect: `testdata/warned`, and those of every published
//! generation: `testdata/published`.

use std::fmt::Write;

use flexor_dialects::manifest::{self, Verdict};

use crate::manifest_files;

#[test]
fn every_warning_is_given_where_it_is_due() {
    for file in manifest_files::below("testdata/warned") {
        let report = manifest::check(&file.bytes);
        let said: Vec<String> = report.findings().map(|finding| format!("{}: {finding}", finding.reason)).collect();
        assert!(!report.has_errors(), "{}: {said:?}", file.path);
        let wanted = file.headline().strip_prefix("warns: ").and_then(|rest| rest.split(':').next());
        let wanted = wanted.unwrap_or_else(|| panic!("{}: {}", file.path, file.headline()));
        let reasons: Vec<&str> = report.findings().map(|finding| finding.reason.as_str()).collect();
        assert_eq!(reasons, [wanted], "{}: {said:?}", file.path);
    }
}

#[test]
fn every_published_shape_is_accepted() {
    let mut said = String::new();
    for file in manifest_files::below("testdata/published") {
        let report = manifest::check(&file.bytes);
        let _ = writeln!(said, "{}", file.path);
        for finding in report.findings() {
            let _ = writeln!(said, "  {}: {finding}", finding.severity_word());
        }
        for document in &report.documents {
            assert!(matches!(document.verdict, Verdict::Accepted { .. }), "{}:{}", file.path, document.at.line);
        }
    }
    insta::assert_snapshot!(said);
}

trait SeverityWord {
    fn severity_word(&self) -> &'static str;
}

impl SeverityWord for flexor_dialects::Finding {
    fn severity_word(&self) -> &'static str {
        if self.is_error() { "error" } else { "warning" }
    }
}
