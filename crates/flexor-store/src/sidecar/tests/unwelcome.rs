//! Masters that should not be obeyed, clients that should not be served.

use std::time::Duration;

use flexor_wire::master::v1::Refusal;

use super::client::Client;
use super::link_server::LinkServer;
use super::{Ended, Running, soon};
use crate::codec::Request;
use crate::sidecar::LinkFault;
use crate::sidecar::simulated_master::Master;

#[tokio::test]
async fn a_leftover_master_is_left_alone_until_a_later_one_comes() {
    let server = LinkServer::start();
    let address = server.address;
    let server = LinkServer::of(server.kill(), address);
    let sidecar = Running::beside(address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    let next = server.kill();

    let leftover = LinkServer::of(Master::first(1), address);
    client.ask(Request::Add { key: "n".into(), delta: 1 }).await;
    soon(async {
        while leftover.with(|inside| inside.shown.len()) < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(client.has_heard_nothing());
    let greetings = leftover.with(|inside| inside.heard.len());
    assert!(greetings <= leftover.with(|inside| inside.shown.len()), "it hears no more than Hello");
    leftover.kill();

    let _server = LinkServer::of(next, address);
    assert_eq!(client.read().await, 2i64.to_le_bytes());
}

#[tokio::test]
async fn a_sidecar_whose_pod_is_out_ends_and_closes_its_clients() {
    let server = LinkServer::start();
    let refusal = Refusal { reason: "PodGone".to_owned(), detail: "worker-0 was replaced".to_owned() };
    server.with(|inside| inside.refusal = Some(refusal));
    let sidecar = Running::beside(server.address, None).await;
    let ended = soon(sidecar.task).await.unwrap();
    let Ended::PodIsOut(fault @ LinkFault::PodIsOut { .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(fault.to_string(), "the master has done with this pod: PodGone: worker-0 was replaced");
    assert!(tokio::net::TcpStream::connect(sidecar.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn the_token_of_the_moment_is_shown_on_every_dial() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first\n").unwrap();
    let server = LinkServer::start();
    let address = server.address;
    let sidecar = Running::beside(address, Some(path.clone())).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    assert_eq!(server.with(|inside| inside.shown.clone()), [Some("Bearer first".to_owned())]);

    std::fs::write(&path, "second").unwrap();
    let server = LinkServer::of(server.kill(), address);
    assert_eq!(client.add("n").await, 2);
    assert_eq!(server.with(|inside| inside.shown.clone()), [Some("Bearer second".to_owned())]);
}

#[tokio::test]
async fn clients_that_talk_nonsense_are_closed_and_harm_nobody() {
    let server = LinkServer::start();
    let sidecar = Running::beside(server.address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    assert_eq!(client.add("n").await, 1);
    let garbage: [&[u8]; 4] = [
        &[0xff; 64],
        // A SET with a key of 4 GiB.
        &[1, 0, 0, 0, 0, 1, 0, 0, 0],
        // MULTI_SET with more pairs than there are bytes in the world.
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
