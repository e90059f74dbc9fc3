//! Tests data files that change or are damaged: the job fails and names the file.

use std::fs;

use super::cluster::Workspace;
use super::quickstart::running_job::accounted;
use super::quickstart::{PATIENCE, Quickstart};
use crate::local::faults::process::server;
use crate::program::ProgramOutput;

/// How often a slot gets a replacement: the job's default.
const RETRIES: usize = 3;

#[test]
fn a_data_file_that_shrinks_during_training_fails_the_job_with_its_name() {
    let workspace = Workspace::new();
    let quickstart = Quickstart::default();
    let training = quickstart.start(&workspace, &[]);
    // Most of the data is still unread.
    training.no_further_than(quickstart.share(1, 8), "the first records", |status| accounted(status) > 0);
    let data = fs::OpenOptions::new().write(true).open(workspace.folder.path().join("quickstart.csv")).unwrap();
    data.set_len(data.metadata().unwrap().len() / 2).unwrap();
    let ended = training.ends_with(1);
    assert!(
        ended.stdout.contains("ProgramError: exit code 1; error: quickstart.csv has changed since"),
        "{}",
        ended.stdout
    );
    // A worker that opens the file again finds the truncated row.
    let verdict = ended.stdout.lines().last().unwrap();
    let failed = "Failed: CriticalNodeFailed: ProgramError: exit code 1; error: quickstart.csv: damaged at byte ";
    assert!(verdict.contains(failed) && verdict.contains("was the file truncated?"), "{verdict}");
    let pods = ["quickstart-edljob-chief-", "quickstart-edljob-worker-"];
    let again = |pod: &str| {
        let is_it = |line: &&str| line.contains(pod) && line.contains("PodWanted: its slot is filled again");
        ended.stdout.lines().filter(is_it).count()
    };
    assert_eq!(pods.map(again).into_iter().max(), Some(RETRIES), "{}", ended.stdout);
}

#[test]
fn a_damaged_chunk_ends_the_job_with_file_and_offset() {
    let workspace = Workspace::new();
    let folder = workspace.folder.path();
    let data = |words: &[&str]| -> ProgramOutput {
        server(&[&["data"], words].concat()).current_dir(folder).output().unwrap().into()
    };
    for words in [
        &["gen", "clicks", "--out", "quickstart.csv", "--records", "20000", "--test-records", "20000"][..],
        &["convert", "quickstart.csv", "quickstart.recordio", "--compressor", "none"],
    ] {
        let done = data(words);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let file = folder.join("quickstart.recordio");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    Quickstart { records: 20_000, words: ", --schema=clicks", ..Quickstart::default() }.write(&workspace);
    let manifest = fs::read_to_string(folder.join("job.yaml")).unwrap();
    let other = manifest
        .replace("--data=quickstart.csv", "--data=quickstart.recordio")
        .replace("    worker:\n", "    worker:\n      restartCount: 0\n");
    fs::write(folder.join("job.yaml"), other).unwrap();
    let ended = workspace.run(&["job.yaml"]).patient(PATIENCE).wait_for(1);
    let verdict = ended.stdout.lines().last().unwrap();
    let message = regex::Regex::new(r"error: .*quickstart\.recordio.* byte \d+").unwrap();
    assert!(message.is_match(verdict) && verdict.contains("CriticalNodeFailed"), "{verdict}");
}

#[test]
fn a_wrong_command_line_is_not_retried() {
    let wrong = [
        ("--model=deepfm", "--model=deepfm, --schema=clicks:numbers=4,fields=9"),
        ("--model=deepfm", "--modle=deepfm"),
        ("command: [flexor, ps]", "command: [flexor, ps, --mastre=here]"),
    ];
    for (right, wrong) in wrong {
        let workspace = Workspace::new();
        Quickstart { records: 20_000, ..Quickstart::default() }.write(&workspace);
        let file = workspace.folder.path().join("job.yaml");
        let manifest = fs::read_to_string(&file).unwrap();
        assert!(manifest.contains(right), "{manifest}");
        fs::write(file, manifest.replace(right, wrong)).unwrap();
        let ended = workspace.run(&["job.yaml"]).patient(PATIENCE).wait_for(1);
        let verdict = ended.stdout.lines().last().unwrap();
        assert!(verdict.contains("Failed: CriticalNodeFailed: ProgramRefused: exit code 78; error: "), "{verdict}");
        assert!(!ended.stdout.contains("retry"), "{wrong}: {}", ended.stdout);
    }
}
