//! Tests clocks that jump while a world is running.

use std::fs;
use std::time::Duration;

use flexor_model::env;

use super::agent::AgentView;
use super::deadline::throughout;
use super::http;
use super::master::{Master, Ports, master};
use super::node::Node;
use super::process::Process;
use super::worlds::Worlds;

const HOUR_MS: i64 = 3_600_000;
/// torchrun gives itself up when its own heartbeat is older.
const EXPIRED: Duration = Duration::from_secs(15);

#[test]
fn a_master_whose_clock_jumps_drops_no_node_and_keeps_heartbeats_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults.json");
    let mut command = master("2:3", Ports::free());
    let master = Master::run(command.arg("--state").arg(folder.path().join("state")).env(env::FAULTS.name, &faults));
    let (worlds, sidecar) = (Worlds::default(), Process::sidecar("pod-a", master.ports.grpc));
    let (store, behind_sidecar) = (master.ports.store, sidecar.address("listen"));
    let nodes = Node::world([("a", behind_sidecar), ("b", store), ("c", store)], &worlds);

    for offset in [HOUR_MS, 0, -HOUR_MS] {
        fs::write(&faults, format!(r#"{{"clock_offset_ms": {offset}}}"#)).unwrap();
        master.await_log(&format!("clock_offset_ms: {offset},"));
        throughout(Duration::from_millis(2500), || {
            for node in &nodes {
                assert!(
                    matches!(node.shown(), Some(AgentView::World(world)) if world.round == 0),
                    "{:?}",
                    node.shown()
                );
                let age = node.oldest_heartbeat();
                assert!(age < EXPIRED, "an agent sees its heartbeat {age:?} old after a jump to {offset} ms");
            }
        });
    }
    assert_eq!(master.members(), 3);
    let (_, events) = http::get(master.ports.grpc, "/api/events");
    assert!(!events.contains("\"lost\""), "{events}");

    nodes[2].kill();
    nodes[..2].iter().for_each(|node| assert_eq!(node.await_world(1, 2).round, 1, "and it still works"));
}
