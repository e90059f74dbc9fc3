//! Compares the order of leased records with the program that the guide shows for computing it.

use std::fs;
use std::net::SocketAddr;

use flexor_testbed::skip;
use serde_json::{Value, json};

use super::super::faults::master::Master;
use super::api;
use super::worker::Worker;
use crate::program::{feed, root};

/// The guide's description of batch order, as a program.
const BATCHES: &str = "
def run(records, batch, seed, epoch, b):
    whole, k = records // batch, key(seed, epoch)
    cut = mix(k) % (whole + 1)
    if b == whole:
        return cut * batch, records - whole * batch
    r = permute(b, whole, k)
    return r * batch + (records % batch if r >= cut else 0), batch
";

#[test]
fn the_guide_computes_the_order_that_the_master_leases() {
    if let Some(needs) = Worker::Python.lacks() {
        skip!("there is no {needs}");
    }
    let guide = fs::read_to_string(root().join("docs/guide/data.md")).unwrap();
    let (_, rest) = guide.split_once("```python\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let master = Master::start("1:1");
    let address = master.ports.grpc;

    let records = "print([permute(place, 1003, key(7, epoch)) for epoch in (0, 1) for place in range(1003)])";
    let order: Vec<u64> = leased(address, "records").iter().flat_map(|batch| numbers(&batch["records"])).collect();
    assert_eq!(computed(&format!("{shown}\n{records}")), json!(order));

    let runs = "print([run(1003, 10, 7, epoch, b)[0] for epoch in (0, 1) for b in range(101)])";
    let order: Vec<u64> = leased(address, "batches").iter().map(|batch| batch["first"].as_u64().unwrap()).collect();
    assert_eq!(computed(&format!("{shown}\n{BATCHES}\n{runs}")), json!(order));
    assert_eq!((&order[..3], order[100]), (&[240, 420, 833][..], 800), "the numbers of the guide");
}

/// Two epochs of 1003 records in batches of 10, as they are handed out.
fn leased(master: SocketAddr, shuffle: &str) -> Vec<Value> {
    let dataset = json!({ "name": shuffle, "records": 1003, "batch": 10, "epochs": 2, "shuffle": shuffle, "seed": 7 });
    assert_eq!(api::post(master, "datasets", &dataset).0, 200);
    let mut batches = Vec::new();
    loop {
        let asked = json!({ "worker": "w", "batches": 1024 });
        let (status, lease) = api::post(master, &format!("datasets/{shuffle}/lease"), &asked);
        assert_eq!(status, 200, "{lease}");
        if lease["batches"].is_null() {
            return batches;
        }
        batches.extend_from_slice(lease["batches"].as_array().unwrap());
    }
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

fn computed(program: &str) -> Value {
    let mut python = std::process::Command::new("python3");
    python.arg("-");
    let ran = feed(python, program.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}
