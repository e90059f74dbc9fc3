//! Tests training on partly unreadable files, with the option that skips damaged records.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run::cluster::Workspace;
use super::run::quickstart::Quickstart;
use crate::local::faults::process::server;
use crate::program::ProgramOutput;

/// All files in a folder, and in those below it.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

#[test]
fn damaged_records_are_skipped_by_option_and_every_record_is_accounted_for() {
    let workspace = Workspace::new();
    let folder = workspace.folder.path();
    let data = |words: &[&str]| -> ProgramOutput {
        server(&[&["data"], words].concat()).current_dir(folder).output().unwrap().into()
    };
    for words in [
        &["gen", "clicks", "--out", "quickstart.csv", "--records", "20000", "--test-records", "20000"][..],
        &["convert", "quickstart.csv", "quickstart.recordio", "--compressor", "none", "--chunk-limit", "100000"],
    ] {
        let done = data(words);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let file = folder.join("quickstart.recordio");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let message: Value = serde_json::from_str(&data(&["inspect", "-o", "json", "quickstart.recordio"]).stdout).unwrap();
    let damaged = message["damaged_records"].as_u64().unwrap();
    assert!(damaged > 64, "whole batches are damaged: {damaged} records");

    let words = ", --schema=clicks, --damaged=skip";
    let quickstart = Quickstart { records: 20_000, words, ..Quickstart::default() };
    quickstart.write(&workspace);
    let manifest = fs::read_to_string(folder.join("job.yaml")).unwrap();
    let other = manifest.replace("--data=quickstart.csv", "--data=quickstart.recordio");
    fs::write(folder.join("job.yaml"), other).unwrap();
    let ended =
        workspace.run(&["job.yaml", "--report", "report"]).patient(super::run::quickstart::PATIENCE).wait_for(0);
    let message = format!("20000 expected, 20000 accounted for, {damaged} of them left out, 0 recomputed, 0 lost");
    assert!(ended.stdout.contains(&message), "{}", ended.stdout);
    let report = fs::read_to_string(folder.join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["jobs"][0]["records"]["leftOut"], damaged, "{}", report["jobs"][0]["records"]);
    let logs: String = files_in(&folder.join("report")).iter().filter_map(|log| fs::read_to_string(log).ok()).collect();
    let left_out = regex::Regex::new(r"records accounted for, (\d+) of them damaged and left out").unwrap();
    let counted: u64 = left_out.captures_iter(&logs).map(|one| one[1].parse::<u64>().unwrap()).sum();
    assert_eq!(counted, damaged, "each is left out once");
    assert!(logs.contains("quickstart.recordio: damaged at byte"), "and the position is reported");
}

#[test]
fn invalid_records_are_skipped_by_option_and_named_without_it() {
    let workspace = Workspace::new();
    let folder = workspace.folder.path();
    let words = ["data", "gen", "clicks", "--out", "quickstart.csv", "--records", "20000", "--test-records", "20000"];
    let made: ProgramOutput = server(&words).current_dir(folder).output().unwrap().into();
    assert_eq!(made.code, 0, "{}", made.stderr);
    let file = folder.join("quickstart.csv");
    let mut lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    lines[1000].push_str(",1");
    lines[12_000].replace_range(..1, "7");
    // Complete batches in the middle, and those at the beginning, which decide the schema.
    let stretches = [1..200, 5000..5300];
    stretches.iter().cloned().flatten().for_each(|line| lines[line].replace_range(..1, "?"));
    let bad = 2 + stretches.iter().map(ExactSizeIterator::len).sum::<usize>();
    fs::write(&file, lines.join("\n")).unwrap();

    Quickstart { records: 20_000, words: ", --damaged=skip", ..Quickstart::default() }.write(&workspace);
    let ended =
        workspace.run(&["job.yaml", "--report", "report"]).patient(super::run::quickstart::PATIENCE).wait_for(0);
    let message = format!("20000 expected, 20000 accounted for, {bad} of them left out, 0 recomputed, 0 lost");
    assert!(ended.stdout.contains(&message), "{}", ended.stdout);
    let logs: String = files_in(&folder.join("report")).iter().filter_map(|log| fs::read_to_string(log).ok()).collect();
    for named in
        [r"quickstart.csv: record 999, at byte \d+: it has 16 columns", r"record 11999, at byte \d+: column label is"]
    {
        assert!(regex::Regex::new(named).unwrap().is_match(&logs), "{named}: {logs}");
    }

    Quickstart { records: 20_000, ..Quickstart::default() }.write(&workspace);
    let ended = workspace.run(&["job.yaml"]).patient(super::run::quickstart::PATIENCE).wait_for(1);
    assert!(ended.stdout.contains("or skip such records with --damaged skip"), "{}", ended.stdout);
}
