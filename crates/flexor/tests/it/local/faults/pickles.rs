//! Tests pickles that are no rendezvous state.

use bytes::Bytes;
use flexor_store::codec::Request;
use flexor_store::state::SENTINEL;

use super::agent::{FakeAgent, state_key};
use super::deadline::eventually;
use super::master::Master;
use super::node::Node;
use super::process::Process;
use super::store_client::StoreClient;
use super::worlds::Worlds;

/// `posix.system("id")`, as Python writes it.
const EVIL: &[u8] = b"gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==";

#[test]
fn a_pickle_that_names_another_class_ends_its_connection_and_changes_nothing() {
    let master = Master::start("2:2");
    let (worlds, sidecar) = (Worlds::default(), Process::sidecar("pod-a", master.ports.grpc));
    let stores = [master.ports.store, sidecar.address("listen")];
    let nodes = Node::world([("a", stores[0]), ("b", stores[1])], &worlds);
    for store in stores {
        let mut evil = StoreClient::connect(store).unwrap();
        let (expected, desired) = (Bytes::from_static(SENTINEL), Bytes::from_static(EVIL));
        evil.send(&Request::CompareSet { key: state_key(), expected, desired }).unwrap();
        assert!(evil.read_value().is_err(), "the connection is closed");
        eventually("a line in the log", || {
            let log = master.log();
            log.lines().any(|line| line.contains("posix.system") && line.contains(" WARN ")).then_some(())
        });
    }
    let refusals = master.log().matches("posix.system").count();
    assert_eq!(refusals, stores.len(), "one line each");
    nodes.iter().for_each(|node| assert_eq!(node.await_world(0, 2).round, 0));
    let mut reader = FakeAgent::connect(stores[0], "reader", 1).unwrap();
    reader.look().unwrap();
    assert_eq!(master.members(), 2);
}

#[test]
fn the_state_cannot_be_written_by_any_other_way() {
    let master = Master::start("1:1");
    let worlds = Worlds::default();
    let [node] = Node::world([("a", master.ports.store)], &worlds);
    let evil = || Bytes::from_static(EVIL);
    let writes = [
        Request::Set { key: state_key(), value: evil() },
        Request::Append { key: state_key(), value: evil() },
        Request::MultiSet { pairs: vec![("/other".into(), evil()), (state_key(), evil())] },
        Request::DeleteKey { key: state_key() },
        Request::Add { key: state_key(), delta: 1 },
    ];
    for write in writes {
        let mut evil = StoreClient::connect(master.ports.store).unwrap();
        evil.send(&write).unwrap();
        assert!(evil.ping().is_err(), "{write:?}");
    }
    assert_eq!(node.await_world(0, 1).round, 0);
    let mut reader = StoreClient::connect(master.ports.store).unwrap();
    reader.send(&Request::Check { keys: vec!["/other".into()] }).unwrap();
    assert_eq!(reader.read_byte().unwrap(), 1, "nor is half of such a write done");
}
