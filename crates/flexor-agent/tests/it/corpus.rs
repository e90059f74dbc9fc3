//! Runs the checked-in inputs of the fuzz target for error files (`fuzz/fuzz_targets/`) as a test.

use std::path::{Path, PathBuf};

use flexor_agent::workers::ErrorReport;

#[test]
fn any_bytes_are_an_error_file_or_ignored() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/error_file");
    let mut inputs: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    for input in inputs {
        // Shown only if the test fails.
        println!("{}", input.display());
        if let Some(report) = ErrorReport::parse(&std::fs::read(&input).unwrap()) {
            assert_eq!(ErrorReport::parse(report.to_json().as_bytes()), Some(report));
        }
    }
}
