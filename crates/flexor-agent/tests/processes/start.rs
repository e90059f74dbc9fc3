//! The start of a program: environment, folder, input and descriptors.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use flexor_agent::processes::{ExitOutcome, Input, ProcessKey, Processes, Program};

use crate::notes::{Notes, exactly, no_processes};

const KEY: ProcessKey = ProcessKey(0);

/// Starts it and waits for its end.
async fn run(program: Program) -> ExitOutcome {
    let mut processes = no_processes();
    processes.start(KEY, program).unwrap();
    processes.next_exit().await.unwrap().outcome
}

fn refused(processes: &mut Processes, program: Program) -> String {
    processes.start(KEY, program).unwrap_err().to_string()
}

#[tokio::test]
async fn an_exact_environment_inherits_nothing() {
    let notes = Notes::new();
    let environment = exactly(&[("A", "1"), ("EMPTY", "")]);
    let program = Program { environment, stdout: notes.output("env"), ..Program::new("env", ["-0"]) };
    assert_eq!(run(program).await, ExitOutcome::Code(0), "without PATH it is found in the default folders");
    assert_eq!(notes.text("env").unwrap(), "A=1\0EMPTY=\0");
}

#[tokio::test]
async fn a_program_is_looked_up_in_its_own_path() {
    let environment = exactly(&[("PATH", "/no/such/folder")]);
    let message = refused(&mut no_processes(), Program { environment, ..Program::new("env", [""; 0]) });
    assert!(message.starts_with("no command 'env': no folder of PATH has it"), "{message}");
}

#[tokio::test]
async fn a_program_runs_in_its_folder() {
    let notes = Notes::new();
    let script = notes.file("where");
    std::fs::write(&script, "pwd -P\n").unwrap();
    let folder = notes.path().canonicalize().unwrap();
    let program = Program::new("sh", ["where"]);
    let program = Program { folder: Some(folder.clone()), stdout: notes.output("folder"), ..program };
    assert_eq!(run(program).await, ExitOutcome::Code(0));
    assert_eq!(PathBuf::from(notes.line("folder")), folder);
}

#[tokio::test]
async fn a_relative_path_is_relative_to_the_folder() {
    let notes = Notes::new();
    std::os::unix::fs::symlink("/bin/true", notes.file("program")).unwrap();
    let program = Program::new("./program", [""; 0]);
    assert_eq!(run(Program { folder: Some(notes.path().to_owned()), ..program }).await, ExitOutcome::Code(0));
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let program = Program { folder: Some("/no/such/folder".into()), ..Program::new("true", [""; 0]) };
    let message = refused(&mut no_processes(), program);
    assert_eq!(message, "no folder '/no/such/folder' for the program to run in; make it, or choose another");
}

#[tokio::test]
async fn a_program_may_have_no_input() {
    let notes = Notes::new();
    let program = Program { stdin: Input::Null, stdout: notes.output("read"), ..Program::new("cat", [""; 0]) };
    assert_eq!(run(program).await, ExitOutcome::Code(0));
    assert_eq!(notes.text("read").unwrap(), "");
}

#[tokio::test]
async fn listening_sockets_are_passed_down() {
    let script = r#"
import socket
for number in (3, 4):
    peer, _ = socket.socket(fileno=number).accept()
    peer.sendall(f"hello from {number}".encode())
    peer.close()
"#;
    let listeners = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let addresses = [0, 1].map(|index: usize| listeners[index].local_addr().unwrap());
    let notes = Notes::new();
    let mut processes = no_processes();
    let descriptors = listeners.into_iter().map(Into::into).collect();
    processes.start(KEY, Program { descriptors, ..notes.python(script) }).unwrap();
    for (address, number) in addresses.iter().zip(3..) {
        let mut greeting = String::new();
        TcpStream::connect(address).unwrap().read_to_string(&mut greeting).unwrap();
        assert_eq!(greeting, format!("hello from {number}"));
    }
    assert_eq!(processes.next_exit().await.unwrap().outcome, ExitOutcome::Code(0));
    assert!(
        addresses.iter().all(|address| TcpStream::connect(address).is_err()),
        "this process does not hold them open"
    );
}
