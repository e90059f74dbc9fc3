//! Masters that a sidecar rejects, and clients that it rejects.

use std::time::Duration;

use flexor_wire::master::v1::Refusal;

use super::client::Client;
use super::link_server::LinkServer;
use super::{Running, SidecarEnd, soon};
use crate::codec::Request;
use crate::sidecar::LinkFault;
use crate::sidecar::simulated_master::Master;

#[tokio::test]
async fn an_older_master_is_rejected_until_a_later_one_answers() {
    let server = LinkServer::start();
    let address = server.address;
    let server = LinkServer::of(server.kill(), address);
    let sidecar = Running::start(address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    let next = server.kill();

    let older = LinkServer::of(Master::first(1), address);
    client.ask(Request::Add { key: "n".into(), delta: 1 }).await;
    soon(async {
        while older.with(|state| state.authorizations.len()) < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(client.has_no_reply());
    let greetings = older.with(|state| state.received.len());
    assert!(greetings <= older.with(|state| state.authorizations.len()), "it gets nothing but Hello");
    older.kill();

    let _server = LinkServer::of(next, address);
    assert_eq!(client.read().await, 2i64.to_le_bytes());
}

#[tokio::test]
async fn a_sidecar_of_a_refused_pod_ends_and_closes_its_clients() {
    let server = LinkServer::start();
    let refusal = Refusal { reason: "PodGone".to_owned(), detail: "worker-0 was replaced".to_owned() };
    server.with(|state| state.refusal = Some(refusal));
    let sidecar = Running::start(server.address, None).await;
    let ended = soon(sidecar.task).await.unwrap();
    let SidecarEnd::PodRejected(fault @ LinkFault::PodRejected { .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(fault.to_string(), "the master refuses this pod for good: PodGone: worker-0 was replaced");
    assert!(tokio::net::TcpStream::connect(sidecar.address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn every_dial_carries_the_current_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let server = LinkServer::start();
    let address = server.address;
    let sidecar = Running::start(address, Some(path.clone())).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    assert_eq!(server.with(|state| state.authorizations.clone()), [Some("Bearer first".to_owned())]);

    std::fs::write(&path, "second").unwrap();
    let server = LinkServer::of(server.kill(), address);
    assert_eq!(client.add("n").await, 2);
    assert_eq!(server.with(|state| state.authorizations.clone()), [Some("Bearer second".to_owned())]);
}

#[tokio::test]
async fn malformed_clients_are_closed_and_do_not_affect_others() {
    let server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    let garbage: [&[u8]; 4] = [
        &[0xff; 64],
        // A SET with a key of 4 GiB.
        &[1, 0, 0, 0, 0, 1, 0, 0, 0],
        // MULTI_SET with 2^64 - 1 pairs.
        &[11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        // An opcode that no torch has.
        &[19],
    ];
    for bytes in garbage {
        let mut nonsense = Client::connect(sidecar.address).await;
        nonsense.send(bytes).await;
        assert_eq!(nonsense.read_to_end().await, b"");
    }
    let mut cut_off = Client::connect(sidecar.address).await;
    cut_off.send(&[3, 8, 0, 0, 0]).await;
    drop(cut_off);
    assert_eq!(client.add("n").await, 2);
}
