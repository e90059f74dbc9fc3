//! What a program finds at other paths than this machine has it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flexor_agent::processes::{Mount, Outcome, ProcessKey, Program};

use crate::notes::{Notes, nobody};

/// No machine has this folder.
const DEEP: &str = "/flexor-agent-test/deep";

/// Starts it with these mounts and waits for its end; nothing, said in a line, where the system forbids mounts.
async fn run(notes: &Notes, program: Program, mounts: Vec<Mount>) -> Option<Outcome> {
    let mut processes = nobody();
    let program = Program { folder: Some(DEEP.into()), mounts, stderr: notes.output("errors"), ..program };
    processes.start(ProcessKey(0), program).unwrap();
    let outcome = processes.next_exit().await.unwrap().outcome;
    assert!(!Path::new("/flexor-agent-test").exists(), "nothing is made on this machine");
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
async fn a_program_its_folder_and_its_files_may_be_in_what_is_mounted() {
    let notes = Notes::new();
    let program = Program { stdout: notes.output("told"), ..Program::new("./run", [""; 0]) };
    let Some(outcome) = run(&notes, program, vec![volume(&notes)]).await else { return };
    assert_eq!(outcome, Outcome::Code(0), "{:?}", notes.text("errors"));
    assert_eq!(notes.text("told").unwrap(), format!("{DEEP}\n./run\nrun\n"));
    assert_eq!(notes.text("volume/made").as_deref(), Some("made\n"));
}

#[tokio::test]
async fn what_is_wrong_with_a_view_is_told_in_a_line() {
    let notes = Notes::new();
    let said = |wanted: Outcome, outcome: Option<Outcome>, text: &str| {
        let errors = notes.text("errors").unwrap();
        assert!(outcome.is_none_or(|outcome| outcome == wanted && errors.contains(text)), "{outcome:?} {errors}");
    };
    let missing = run(&notes, Program::new("./nope", [""; 0]), vec![volume(&notes)]).await;
    said(Outcome::Code(127), missing, "no program './nope': there is no such file");
    let elsewhere = Mount { at: "/flexor-agent-test/other".into(), ..volume(&notes) };
    let folder = run(&notes, Program::new("true", [""; 0]), vec![elsewhere]).await;
    said(Outcome::Code(128), folder, "no folder '/flexor-agent-test/deep' for the program to run in");
    let file = Mount { at: "/usr".into(), from: notes.file("volume/run"), read_only: true };
    let other_type = run(&notes, Program::new("true", [""; 0]), vec![file]).await;
    said(Outcome::Code(128), other_type, "'/usr' is a folder on this machine, and what is to be mounted there a file");
    let nothing = Mount { from: notes.file("nothing"), ..volume(&notes) };
    let source = run(&notes, Program::new("true", [""; 0]), vec![nothing]).await;
    said(Outcome::Code(128), source, "cannot be used");
}
