//! Compares the answers of our store with those of torch's own TCPStore server: directly, through a sidecar, and as the
//! workers of `flexor launch` find it.

use std::process::Stdio;

use flexor_testbed::{
    Torch,
    flexor_processes::{Master, Sidecar},
    torch_or_skip,
    torchrun::StockStore,
};

use super::job::{DEADLINE, master};
use crate::local::launch::folder::Folder;
use crate::local::launch::launcher::{Launcher, launch};
use crate::local::launch::worlds::free_port;

const SCRIPT: &str = include_str!("store_calls.py");

/// Makes all calls at `endpoint` and returns the result of each.
fn answers(torch: &Torch, endpoint: &str) -> Vec<String> {
    let (host, port) = endpoint.rsplit_once(':').unwrap();
    let mut command = torch.command();
    command.args(["-W", "ignore", "-c", SCRIPT, host, port]);
    let printed = command.stdin(Stdio::null()).output().unwrap();
    assert!(printed.status.success(), "at {endpoint}: {}", String::from_utf8_lossy(&printed.stderr));
    String::from_utf8(printed.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_call_of_torchs_client_is_answered_as_torchs_own_server_does() {
    let torch = torch_or_skip!();
    let stock = StockStore::start(&torch).unwrap();
    let expected = answers(&torch, &stock.endpoint());
    assert!(expected.len() > 200, "the calls were made: {expected:?}");
    // Each with its own master: a second run would see the keys of the first.
    let [direct, behind] = [(); 2].map(|()| Master::start(&torch, master("2:3")).unwrap());
    assert_same("directly", &expected, &answers(&torch, direct.store()));
    let sidecar = Sidecar::start(&behind, "node-0").unwrap();
    assert_same("through a sidecar", &expected, &answers(&torch, sidecar.endpoint()));
}

#[test]
fn a_worker_of_the_launcher_gets_the_answers_of_torchs_own_server() {
    let torch = torch_or_skip!();
    let port = free_port();
    // Alone, the store has a port of the launcher; where the command line names a port, that one.
    let standalone = worker_answers(&torch, &["--standalone"]);
    let fixed = worker_answers(&torch, &["--nnodes=1", "--master-addr=localhost", "--master-port", &port]);
    let stock = StockStore::start(&torch).unwrap();
    let expected = answers(&torch, &stock.endpoint());
    for (how, (folder, launcher)) in [("in a standalone launch", standalone), ("in a static rendezvous", fixed)] {
        let printed = launcher.wait_for(0).stdout;
        assert_same(how, &expected, &printed.lines().map(str::to_owned).collect::<Vec<_>>());
        let store = folder.lines("store").concat();
        assert_eq!(store == format!("localhost:{port}"), how == "in a static rendezvous", "{how} at {store}");
    }
}

/// A launch whose worker makes all calls at the store that it finds in its environment.
fn worker_answers(torch: &Torch, options: &[&str]) -> (Folder, Launcher) {
    let folder = Folder::new();
    std::fs::write(folder.path().join("calls.py"), SCRIPT).unwrap();
    let script = "echo $MASTER_ADDR:$MASTER_PORT > store; exec $PYTHON -W ignore calls.py $MASTER_ADDR $MASTER_PORT";
    let mut command = launch(&folder, options);
    let launcher = Launcher::start(command.env("PYTHON", torch.python()).args(["sh", "-c", script]));
    (folder, launcher.patient(DEADLINE))
}

fn assert_same(how: &str, expected: &[String], ours: &[String]) {
    let different: Vec<_> = expected.iter().zip(ours).filter(|(stock, ours)| stock != ours).collect();
    assert_eq!(different, [], "{how}: torch's server first, ours second");
    assert_eq!(expected.len(), ours.len());
}
