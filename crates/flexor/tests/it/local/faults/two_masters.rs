//! Tests two masters of one job: the newer one wins, and no client follows the older one.

use std::net::TcpListener;

use flexor_store::codec::Request;
use nix::sys::signal::Signal;

use super::deadline::eventually;
use super::master::{Master, Ports};
use super::node::Node;
use super::process::Process;
use super::store_client::StoreClient;
use super::worlds::Worlds;

const WORLD: &str = "1:2";

fn add(client: &mut StoreClient) {
    client.send(&Request::Add { key: "/n".into(), delta: 1 }).unwrap();
}

#[test]
fn the_older_of_two_masters_ends_with_3_and_its_clients_move_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut older = Master::on(folder.path(), WORLD);
    let sidecar = Process::sidecar("pod", older.ports.grpc);
    let mut client = StoreClient::connect(sidecar.address("listen")).unwrap();
    add(&mut client);
    assert_eq!(client.read_number().unwrap(), 1);

    let mut newer = Master::on(folder.path(), WORLD);
    assert_eq!((older.generation(), newer.generation()), (1, 2));
    add(&mut client);
    assert_eq!(older.wait(), Some(3));
    older.await_log("Superseded: another master of this job has started (generation 2); this one (1) ends");
    assert!(newer.is_running());

    newer.end_with(Signal::SIGTERM);
    let _newest = Master::at(older.ports, folder.path(), WORLD);
    assert_eq!(client.read_number().unwrap(), 2, "what the older one could not keep is done once");
}

#[test]
fn an_older_master_that_has_nothing_to_write_ends_too() {
    let (folder, worlds) = (tempfile::tempdir().unwrap(), Worlds::default());
    let mut older = Master::on(folder.path(), WORLD);
    let nodes = Node::world([("a", older.ports.store), ("b", older.ports.store)], &worlds);
    let newer = Master::on(folder.path(), WORLD);
    assert_eq!(older.wait(), Some(3), "or those it serves would train on beside the world of the newer one");
    older.await_log("Superseded");
    nodes.iter().for_each(|node| drop(eventually("the end of its connections", || node.error())));
    assert_eq!(newer.members(), 2, "it knows them, and waits for them to come");
}

#[test]
fn a_sidecar_that_has_seen_a_later_master_leaves_an_earlier_one_alone() {
    let (folder, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = Master::on(folder.path(), WORLD);
    let ports = first.ports;
    drop(first);
    let second = Master::at(ports, folder.path(), WORLD);
    assert_eq!(second.generation(), 2);
    let sidecar = Process::sidecar("pod", ports.grpc);
    let mut client = StoreClient::connect(sidecar.address("listen")).unwrap();
    add(&mut client);
    assert_eq!(client.read_number().unwrap(), 1);
    drop(second);

    let leftover = Master::at(ports, another.path(), WORLD);
    assert_eq!(leftover.generation(), 1);
    add(&mut client);
    sidecar.await_log("the master refuses the link: Superseded: the sidecar has seen generation 2, this master has 1");
    leftover.await_log("a sidecar was refused");
    drop(leftover);

    let third = Master::at(ports, folder.path(), WORLD);
    assert_eq!(third.generation(), 3);
    assert_eq!(client.read_number().unwrap(), 2, "the leftover counted nothing");
}

#[test]
fn a_master_that_cannot_bind_its_ports_does_not_end_the_running_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut master = Master::on(folder.path(), WORLD);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ports = Ports { store: master.ports.store, grpc: taken, http: taken };
    let refused = super::master::master(WORLD, ports).arg("--state").arg(folder.path()).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    let mut client = StoreClient::connect(master.ports.store).unwrap();
    assert_eq!(client.add("/n", 1).unwrap(), 1);
    eventually("the write to be durable", || (master.ready().0 == 200).then_some(()));
    assert!(master.is_running());
}
