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
            let about_the_whole = matches!(finding.reason, Reason::InvalidYaml | Reason::NotAnObject);
            if !about_the_whole {
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

const GOOD: &str = "apiVersion: paddlepaddle.org/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  trainer: {min-instance: 1, max-instance: 1}\n";

fn verdicts(file: &str) -> Vec<&'static str> {
    let documents = manifest::check(file.as_bytes()).documents;
    let word = |document: manifest::Document| match document.verdict {
        Verdict::Skipped => "skipped",
        Verdict::Refused { .. } => "refused",
        Verdict::Accepted { .. } => "accepted",
    };
    documents.into_iter().map(word).collect()
}

#[test]
fn one_broken_document_does_not_hide_the_others() {
    let file = format!("{GOOD}---\nbroken: [\n---\n{GOOD}");
    assert_eq!(verdicts(&file), ["accepted", "refused", "accepted"]);
    assert_eq!(
        manifest::check(file.as_bytes()).findings().filter_map(|f| f.at).find(|at| at.line == 7).map(|at| at.line),
        Some(7)
    );
}

#[test]
fn a_duplicate_key_matters_only_in_a_kind_of_ours() {
    let foreign = "apiVersion: v1\nkind: ConfigMap\ndata: {a: x, a: y}\n";
    assert_eq!(
        verdicts(&format!("{foreign}---\n{}", GOOD.replace("{name: a}", "{name: a, name: b}"))),
        ["skipped", "refused"]
    );
}

#[test]
fn the_objects_of_a_list_are_judged_each_by_itself() {
    let twice = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: paddlepaddle.org/v1, kind: TrainingJob, kind: X}\n";
    assert_eq!(verdicts(twice), ["refused"]);
    let item: String = GOOD.lines().map(|line| format!("  {line}\n")).collect::<String>().replacen("  ", "- ", 1);
    assert_eq!(verdicts(&format!("apiVersion: v1\nkind: List\nitems:\n{item}{item}")), ["accepted", "accepted"]);
    assert_eq!(verdicts("apiVersion: example.com/v1\nkind: AllowList\nitems: [{a: b}]\n"), ["skipped"]);
}

#[test]
fn a_kind_of_the_same_name_may_belong_to_somebody_else() {
    assert_eq!(verdicts(&GOOD.replace("paddlepaddle.org", "sagemaker.aws.amazon.com")), ["skipped"]);
    assert_eq!(verdicts(&GOOD.replace("paddlepaddle.org", "padlepaddle.org")), ["refused"]);
}

#[test]
fn a_name_may_be_left_to_the_api_server() {
    assert_eq!(verdicts(&GOOD.replace("{name: a}", "{generateName: a-}")), ["accepted"]);
    assert_eq!(verdicts(&GOOD.replace("{name: a}", "{labels: {a: b}}")), ["refused"]);
}
