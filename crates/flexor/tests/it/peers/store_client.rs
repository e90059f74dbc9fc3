//! Compares the answers of our store, directly and through a sidecar, with those of torch's own TCPStore server.

use std::process::Stdio;

use flexor_testbed::{
    Torch,
    flexor_processes::{Master, Sidecar},
    torch_or_skip,
    torchrun::StockStore,
};

use super::job::master;

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

fn assert_same(how: &str, expected: &[String], ours: &[String]) {
    let different: Vec<_> = expected.iter().zip(ours).filter(|(stock, ours)| stock != ours).collect();
    assert_eq!(different, [], "{how}: torch's server first, ours second");
    assert_eq!(expected.len(), ours.len());
}
