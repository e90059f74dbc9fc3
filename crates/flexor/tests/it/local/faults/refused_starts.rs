//! Tests masters that cannot start: the message names the problem and the remedy.

use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::master::{JOB, Master};
use super::process::server;
use super::store_client::StoreClient;

const ANY: &str = "127.0.0.1:0";

/// Starts a master with these arguments, on free ports unless given, and returns its exit and its message.
fn refused(args: &[&str]) -> String {
    let mut command = server(&["master", "--job", JOB]);
    let defaults = [("--nnodes", "1:2"), ("--grpc", ANY), ("--store", ANY), ("--http", ANY)];
    for (option, value) in defaults.iter().filter(|(option, _)| !args.contains(option)) {
        command.args([option, value]);
    }
    let output = command.args(args).output().unwrap();
    assert!(output.stdout.is_empty(), "nothing is promised on standard output");
    let printed = String::from_utf8(output.stderr).unwrap();
    let printed: Vec<&str> = printed.lines().filter(|line| !line.contains("no --state")).collect();
    format!("{}\nexit {}: {}\n", args.join(" "), output.status.code().unwrap(), printed.join("\n").trim_end())
}

#[test]
fn a_refused_start_says_what_is_wrong_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (empty, missing, odd, file) = (path("empty"), path("missing"), path("odd"), path("file"));
    fs::write(&empty, " \n").unwrap();
    fs::write(&odd, "two words").unwrap();
    fs::write(&file, "").unwrap();
    for private in [&empty, &odd] {
        fs::set_permissions(private, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let taken = TcpListener::bind(ANY).unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let mut printed = String::new();
    for args in [
        &["--nnodes", "0:2"][..],
        &["--nnodes", "3:2"],
        &["--nnodes", "2:"],
        &["--nnodes", "static:4"],
        &["--node-unit", "5"],
        &["--grpc", "0.0.0.0:0"],
        &["--grpc", "0.0.0.0:0", "--token-file", &empty],
        &["--token-file", &missing],
        &["--token-file", &odd],
        &["--token-file", folder.path().to_str().unwrap()],
        &["--grpc", &port],
        &["--store", &port],
        &["--http", &port],
        &["--state", &file],
    ] {
        writeln!(printed, "{}", refused(args)).unwrap();
    }
    let printed = printed.replace(folder.path().to_str().unwrap(), "FOLDER").replace(&port, "127.0.0.1:PORT");
    insta::assert_snapshot!(printed);
}

#[test]
fn the_state_folder_of_another_job_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let mut master = Master::on(folder.path(), "1:2");
    let printed = refused(&["--uid", "another", "--state", state]);
    assert!(printed.contains("exit 3") && printed.contains("not of another"), "{printed}");
    assert!(printed.contains("give every job a state folder of its own"), "{printed}");

    let mut client = StoreClient::connect(master.ports.store).unwrap();
    assert_eq!(client.add("/n", 1).unwrap(), 1, "whose folder it is goes on");
    assert!(master.is_running());
    drop(master);
    assert_eq!(Master::on(folder.path(), "1:2").generation(), 2);
}
