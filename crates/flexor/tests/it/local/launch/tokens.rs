//! Tests that the masters which launchers start refuse clients without the job's token.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use super::super::faults::deadline::eventually;
use super::super::faults::http;
use super::folder::{Folder, WAIT};
use super::launcher::{Launcher, alone, end_well, launch};

fn status(address: SocketAddr, token: Option<&str>) -> u16 {
    let header = token.map(|token| format!("Authorization: Bearer {}\r\n", token.trim())).unwrap_or_default();
    http::get_with(address, "/api/status", &header).0
}

#[test]
fn a_node_that_serves_demands_the_token_that_it_was_given() {
    let folder = Folder::new();
    let token_file = folder.path().join("token");
    fs::write(&token_file, "s3cret\n").unwrap();
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let script = format!("echo $TORCHELASTIC_RUN_ID >> started; {WAIT}");
    let at = endpoint.to_string();
    let node = |is_host: &str, file: Option<&std::path::Path>| {
        let mut command = launch(&folder, ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=j"]);
        file.map(|file| command.env("FLEXOR_TOKEN_FILE", file));
        let conf = format!("--rdzv-conf=is_host={is_host}");
        Launcher::start(command.args(["--rdzv-endpoint", &at, &conf, "sh", "-c", &script]))
    };
    let serving = node("true", Some(&token_file));
    eventually("the node that serves", || TcpStream::connect(endpoint).ok());
    let other_file = folder.path().join("other");
    fs::write(&other_file, "0ther\n").unwrap();
    for wrong in [None, Some(&*other_file), Some(std::path::Path::new("no-such-file"))] {
        let ended = node("false", wrong).wait_for(3);
        assert!(ended.stderr.contains("FLEXOR_TOKEN_FILE"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("waits for"), "{}", ended.stderr);
    }
    assert_eq!((status(endpoint, None), status(endpoint, Some("s3cret"))), (401, 200));
    let other = node("false", Some(&token_file));
    assert_eq!(folder.await_lines("started", 2), ["j", "j"]);
    folder.let_go();
    for ended in [serving.wait_for(0), other.wait_for(0)] {
        assert!(
            !ended.stderr.contains("overridden by the master"),
            "the master is called as the run is: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_launch_of_one_machine_has_a_token_of_its_own_that_its_processes_know() {
    let folder = Folder::new();
    let script = format!("echo $FLEXOR_MASTER $FLEXOR_TOKEN_FILE >> told; {WAIT}");
    let launcher = alone(&folder, &["--nproc-per-node=2"], &script);
    let reported = folder.await_lines("told", 2);
    let (address, file) = reported[0].split_once(' ').unwrap();
    assert_eq!(reported[0], reported[1]);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let address = address.parse().unwrap();
    let token = fs::read_to_string(file).unwrap();
    assert_eq!((status(address, None), status(address, Some(&token))), (401, 200));
    folder.let_go();
    end_well([launcher]);
    assert!(!fs::exists(file).unwrap(), "the token goes with its master");
}
