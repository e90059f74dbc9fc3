//! Programs with mounts: files and folders at other paths.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flexor_agent::processes::{ExitOutcome, Mount, ProcessKey, Program};

use crate::notes::{Notes, no_processes};

/// No machine has this folder.
const DEEP: &str = "/flexor-agent-test/deep";

/// Runs a program with these mounts; `None`, with a line on stderr, where the system forbids mounts.
async fn run(notes: &Notes, program: Program, mounts: Vec<Mount>) -> Option<ExitOutcome> {
    let mut processes = no_processes();
    let program = Program { folder: Some(DEEP.into()), mounts, stderr: notes.output("errors"), ..program };
    processes.start(ProcessKey(0), program).unwrap();
    let outcome = processes.next_exit().await.unwrap().outcome;
    assert!(!Path::new("/flexor-agent-test").exists(), "nothing is created on this machine");
    if notes.text("errors").unwrap().contains("forbids mounts") {
        eprintln!("skipped: this system forbids mounts");
        return None;
    }
    Some(outcome)
}

fn volume(notes: &Notes) -> Mount {
    let from = notes.file("volume");
    fs::create_dir_all(&from).unwrap();
    let script = from.join("run");
    fs::write(&script, "#!/bin/sh\npwd; echo $0; ls; echo made > made\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Mount { at: DEEP.into(), from, read_only: false }
}

#[tokio::test]
async fn program_folder_and_files_may_be_in_a_mount() {
    let notes = Notes::new();
    let program = Program { stdout: notes.output("listing"), ..Program::new("./run", [""; 0]) };
    let Some(outcome) = run(&notes, program, vec![volume(&notes)]).await else { return };
    assert_eq!(outcome, ExitOutcome::Code(0), "{:?}", notes.text("errors"));
    assert_eq!(notes.text("listing").unwrap(), format!("{DEEP}\n./run\nrun\n"));
    assert_eq!(notes.text("volume/made").as_deref(), Some("made\n"));
}

#[tokio::test]
async fn errors_of_a_view_are_one_line() {
    let notes = Notes::new();
    let check = |expected: ExitOutcome, outcome: Option<ExitOutcome>, text: &str| {
        let errors = notes.text("errors").unwrap();
        assert!(outcome.is_none_or(|outcome| outcome == expected && errors.contains(text)), "{outcome:?} {errors}");
    };
    let missing = run(&notes, Program::new("./nope", [""; 0]), vec![volume(&notes)]).await;
    check(ExitOutcome::Code(127), missing, "no program './nope': there is no such file");
    let elsewhere = Mount { at: "/flexor-agent-test/other".into(), ..volume(&notes) };
    let folder = run(&notes, Program::new("true", [""; 0]), vec![elsewhere]).await;
    check(ExitOutcome::Code(128), folder, "no folder '/flexor-agent-test/deep' for the program to run in");
    let file = Mount { at: "/usr".into(), from: notes.file("volume/run"), read_only: true };
    let other_type = run(&notes, Program::new("true", [""; 0]), vec![file]).await;
    check(
        ExitOutcome::Code(128),
        other_type,
        "'/usr' is a folder on this machine, and what is to be mounted there a file",
    );
    let nothing = Mount { from: notes.file("nothing"), ..volume(&notes) };
    let source = run(&notes, Program::new("true", [""; 0]), vec![nothing]).await;
    check(ExitOutcome::Code(128), source, "cannot be used");
}
