//! Tests the job's token: the server refuses a client without it, and the client retries until it has the right one.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use flexor_model::env;

use super::http;
use super::master::{Master, Ports, master};
use super::process::{Process, server};
use super::store_client::StoreClient;
use crate::program::ProgramOutput;

/// A master that requires the token in a file.
fn with_token(folder: &std::path::Path) -> Master {
    let file = folder.join("token");
    fs::write(&file, "s3cret\n").unwrap();
    Master::run(master("1:1", Ports::free()).arg("--token-file").arg(file))
}

#[test]
fn a_sidecar_with_a_wrong_token_says_so_and_tries_until_it_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let master = with_token(folder.path());
    let file = folder.path().join("token-of-the-sidecar");
    fs::write(&file, "wrong").unwrap();
    let sidecar = Process::sidecar_with("pod", master.ports.grpc, &["--token-file", file.to_str().unwrap()]);
    sidecar.await_log(
        "the call does not carry the job's token; name the file with it in FLEXOR_TOKEN_FILE, or with --token-file",
    );
    let mut client = StoreClient::connect(sidecar.address("listen")).unwrap();
    fs::remove_file(&file).unwrap();
    sidecar.await_log("the job's token cannot be read from");
    fs::write(&file, "s3cret").unwrap();
    assert_eq!(client.add("/n", 1).unwrap(), 1);
    let complaints = sidecar.log().lines().filter(|line| line.contains(" WARN ")).count();
    assert!(complaints <= 4, "the same failure is not logged repeatedly:\n{}", sidecar.log());
}

#[test]
fn a_sidecar_without_a_token_says_that_the_token_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let master = with_token(folder.path());
    let mut sidecar = Process::sidecar("pod", master.ports.grpc);
    sidecar.await_log("the call does not carry the job's token");
    assert!(sidecar.is_running());
}

#[test]
fn the_api_requires_the_token_and_says_how_to_send_it() {
    let folder = tempfile::tempdir().unwrap();
    let master = with_token(folder.path());
    let ask = |address: SocketAddr, path: &str, headers: &str| http::get_with(address, path, headers);
    for headers in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic s3cret\r\n"] {
        let (code, body) = ask(master.ports.grpc, "/api/status", headers);
        assert_eq!(code, 401);
        assert!(body.contains("curl -H") && !body.contains("s3cret"), "{body}");
    }
    assert_eq!(ask(master.ports.grpc, "/api/status", "Authorization: Bearer s3cret\r\n").0, 200);
    assert_eq!(ask(master.ports.http, "/ready", "").0, 200, "probes have no token");
    assert!(!master.log().contains("s3cret"));
}

#[test]
fn a_parameter_server_for_other_machines_needs_a_token() {
    let ps = ["ps", "--master", "127.0.0.1:1", "--name", "a", "--listen", "0.0.0.0:0"];
    let refused = ProgramOutput::from(server(&ps).output().unwrap());
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("reachable from other machines"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
}

#[test]
fn a_token_file_that_others_can_read_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "s3cret").unwrap();
    for (mode, is_open) in [(0o644, true), (0o640, true), (0o600, false), (0o400, false)] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let master = Master::run(master("1:1", Ports::free()).arg("--token-file").arg(&file));
        // The line is written after the token was read.
        master.await_log("only this machine can reach these ports");
        let log = master.log();
        assert_eq!(log.contains("other users can read the job's token"), is_open, "{mode:o}: {log}");
    }
}

#[test]
fn a_token_file_without_an_end_is_refused_by_every_program() {
    let programs: [&[&str]; 4] = [
        &["master", "--job", "j", "--nnodes", "1"],
        &["ps", "--master", "127.0.0.1:1", "--name", "a"],
        &["launch", "--standalone", "true"],
        &["launch", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:1", "true"],
    ];
    for program in programs {
        let refused = server(program).env(env::TOKEN_FILE.name, "/dev/zero").output().unwrap();
        let refused = ProgramOutput::from(refused);
        assert_ne!(refused.code, 0, "{program:?}");
        assert!(refused.stderr.contains("/dev/zero is no file with a token"), "{program:?}: {}", refused.stderr);
    }
    let folder = tempfile::tempdir().unwrap();
    let master = with_token(folder.path());
    let sidecar = Process::sidecar_with("pod", master.ports.grpc, &["--token-file", "/dev/zero"]);
    sidecar.await_log("/dev/zero is no file with a token");
}
