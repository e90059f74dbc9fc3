//! Outages of the master: clients see only a delay.

use std::time::Duration;

use flexor_wire::master::v1::{CloseConnection, from_sidecar::Message};

use super::client::Client;
use super::link_server::LinkServer;
use super::{Running, SidecarEnd};
use crate::codec::Request;

const CLIENTS: i64 = 4;
const ROUNDS: i64 = 60;
const OUTAGES: usize = 6;

/// Runs the requests of an agent and its workers. Returns the results of its ADDs.
async fn work(mut client: Client, id: i64) -> Vec<i64> {
    let mut counts = Vec::new();
    for round in 0..ROUNDS {
        counts.push(client.add("count").await);
        let (key, value) = (format!("own/{id}"), format!("{id} in {round}"));
        client.set(&key, &value).await;
        assert_eq!(client.get(&key).await, value);
        client.wait(&format!("own/{}", (id + 1) % CLIENTS)).await;
        let register = format!("register/{round}");
        let first = client.compare_set(&register, "", &value).await;
        assert_eq!(client.get(&register).await, first, "a register is set once");
        client.barrier(&format!("round/{round}"), CLIENTS).await;
    }
    counts
}

#[tokio::test]
async fn clients_see_only_a_delay_when_the_master_is_killed() {
    let mut server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let mut clients = tokio::task::JoinSet::new();
    for id in 0..CLIENTS {
        clients.spawn(work(Client::connect(sidecar.address).await, id));
    }
    for _ in 0..OUTAGES {
        tokio::time::sleep(Duration::from_millis(60)).await;
        let (address, next) = (server.address, server.kill());
        tokio::time::sleep(Duration::from_millis(40)).await;
        server = LinkServer::of(next, address);
    }
    let mut counts = super::soon(clients.join_all()).await.concat();
    counts.sort_unstable();
    assert_eq!(counts, (1..=CLIENTS * ROUNDS).collect::<Vec<_>>(), "each ADD counts once");
    assert_eq!(sidecar.end().await, SidecarEnd::Stopped);
}

#[tokio::test]
async fn clients_of_all_ports_meet_in_one_store() {
    let server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let mut waiter = Client::connect(sidecar.other_address).await;
    waiter.ask(Request::Wait { keys: vec!["shared".into()] }).await;
    let mut holder = Client::connect(sidecar.address).await;
    holder.set("shared", "v").await;
    assert_eq!(waiter.read().await, [0], "the wait ends with what the other port has received");
    assert_eq!(waiter.get("shared").await, "v");
    waiter.set("back", "w").await;
    assert_eq!(holder.get("back").await, "w");
    let (address, other_address) = (sidecar.address, sidecar.other_address);
    assert_eq!(sidecar.end().await, SidecarEnd::Stopped);
    for address in [address, other_address] {
        let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{address} is closed with the sidecar");
    }
}

#[tokio::test]
async fn without_the_master_waits_for_known_keys_succeed_and_other_requests_are_queued() {
    let server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let (mut holder, mut waiter) = (Client::connect(sidecar.address).await, Client::connect(sidecar.address).await);
    holder.set("seen", "v").await;
    assert_eq!(holder.get("seen").await, "v");
    let (address, next) = (server.address, server.kill());

    waiter.wait("seen").await;
    waiter.ask(Request::Wait { keys: vec!["unseen".into()] }).await;
    waiter.ask(Request::CancelWait).await;
    assert_eq!(waiter.read().await, [1]);
    holder.ask(Request::Get { key: "seen".into() }).await;
    super::a_minute_passes().await;
    assert!(holder.has_no_reply() && waiter.has_no_reply());

    let _server = LinkServer::of(next, address);
    assert_eq!(holder.read().await, *b"\x01\0\0\0\0\0\0\0v");
    assert!(waiter.has_no_reply());
}

#[tokio::test]
async fn clients_may_connect_before_the_master_runs() {
    let unused = LinkServer::start();
    let (address, next) = (unused.address, unused.kill());
    let sidecar = Running::start(address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    client.set("k", "v").await;
    client.ask(Request::Get { key: "k".into() }).await;
    super::a_minute_passes().await;
    assert!(client.has_no_reply());
    let _server = LinkServer::of(next, address);
    assert_eq!(client.read().await, *b"\x01\0\0\0\0\0\0\0v");
}

#[tokio::test]
async fn the_master_learns_of_closed_clients_and_of_the_end_of_the_sidecar() {
    let server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let (mut first, mut second) = (Client::connect(sidecar.address).await, Client::connect(sidecar.address).await);
    assert_eq!((first.add("n").await, second.add("n").await), (1, 2));
    let closed =
        |connection| server.with(|state| state.received.contains(&Message::Close(CloseConnection { connection })));
    drop(first);
    super::soon(async {
        while !closed(1) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(!closed(2));
    assert_eq!(sidecar.end().await, SidecarEnd::Stopped);
    assert!(closed(2), "before the sidecar ended");
    assert_eq!(second.read_to_end().await, b"");
}

#[tokio::test]
async fn the_master_gets_a_heartbeat_every_second() {
    let server = LinkServer::start();
    let began = std::time::Instant::now();
    let _sidecar = Running::start(server.address, None).await;
    let is_heartbeat = |message: &&Message| matches!(message, Message::Heartbeat(_));
    let heartbeats = || server.with(|state| state.received.iter().filter(is_heartbeat).count());
    super::soon(async {
        while heartbeats() < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(began.elapsed() > Duration::from_millis(1900), "the first comes at once: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_sends_more_than_the_limit_is_paused_until_the_master_is_back() {
    let server = LinkServer::start();
    let sidecar = Running::start(server.address, None).await;
    let mut client = Client::connect(sidecar.address).await;
    client.set("first", "v").await;
    assert_eq!(client.get("first").await, "v");
    let (address, next) = (server.address, server.kill());

    // More than the sidecar queues for one connection and both sockets buffer.
    let value = "x".repeat(1 << 20);
    let flood = async {
        for index in 0..100 {
            client.set(&format!("flood/{index}"), &value).await;
        }
        client
    };
    tokio::pin!(flood);
    let stuck = tokio::time::timeout(Duration::from_secs(2), &mut flood).await;
    assert!(stuck.is_err(), "the sidecar took everything during the outage");

    let _server = LinkServer::of(next, address);
    let mut client = super::soon(flood).await;
    assert_eq!(client.get("flood/99").await, value);
}
