//! Clients that are malformed, greedy, slow or silent lose their connection; other clients are not affected.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use flexor_store::codec::Request;
use flexor_store::keyspace::Keyspace;
use flexor_store::server::Limits;

use crate::client::{Store, eventually};

const GREETING: [u8; 5] = [0, 0xce, 0xf7, 0x85, 0x3c];

fn key(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

#[test]
fn malformed_bytes_close_their_connection() {
    let store = Store::start();
    let mut neighbour = store.client();
    let nonsense: [(&str, &[u8]); 6] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: store\r\n\r\n"),
        ("torch 2.1, whose SET is 0", &[0, 1, 0, 0, 0, 0, 0, 0, 0, b'k']),
        ("a first request that is not VALIDATE", &[13, 1, 2, 3, 4]),
        ("an unknown opcode", &[0, 0xce, 0xf7, 0x85, 0x3c, 19]),
        ("a key of 4 GiB", &[0, 0xce, 0xf7, 0x85, 0x3c, 3, 0, 0, 0, 0, 1, 0, 0, 0]),
        ("2^64 - 1 keys", &[0, 0xce, 0xf7, 0x85, 0x3c, 6, 255, 255, 255, 255, 255, 255, 255, 255]),
    ];
    for (what, bytes) in nonsense {
        println!("{what}");
        let mut client = store.connect();
        client.send_bytes(bytes);
        client.expect_closed();
        neighbour.ping();
    }
    eventually("only the neighbour is left", || store.handle.connections() == 1);
}

#[test]
fn requests_before_malformed_bytes_are_served() {
    let store = Store::start();
    let mut client = store.client();
    let set = Request::Set { key: key("k"), value: key("v") };
    client.send_bytes(&[&set.to_bytes()[..], &[99]].concat());
    client.expect_closed();
    store.handle.with(|keys, _, _| assert_eq!(keys.get(b"k"), Some(&key("v"))));
}

#[test]
fn a_request_that_cannot_be_served_closes_only_its_connection() {
    let store = Store::start();
    let (mut client, mut neighbour) = (store.client(), store.client());
    client.send(&Request::Set { key: key("k"), value: key("text") });
    client.send(&Request::Add { key: key("k"), delta: 1 });
    client.expect_closed();
    neighbour.ping();
}

#[test]
fn a_client_that_closes_in_the_middle_of_a_request_is_forgotten() {
    let store = Store::start();
    for _ in 0..20 {
        let mut client = store.client();
        client.send_bytes(&Request::Set { key: key("k"), value: key("v") }.to_bytes()[..12]);
    }
    eventually("all are gone", || store.handle.connections() == 0);
    store.handle.with(|keys, _, _| assert!(keys.is_empty()));
}

#[test]
fn silent_and_slow_connections_are_closed_and_idle_ones_are_not() {
    let limits = Limits {
        validate_within: Duration::from_millis(300),
        request_within: Duration::from_millis(400),
        ..Limits::default()
    };
    let store = Store::with(Keyspace::new(), limits);
    let (mut idle, mut silent, mut slow) = (store.client(), store.connect(), store.client());
    let mut dripping_greeting = store.connect();
    dripping_greeting.send_bytes(&GREETING[..3]);
    silent.expect_closed();
    dripping_greeting.expect_closed();
    let request = Request::Set { key: key("k"), value: vec![0; 1000].into() }.to_bytes();
    let closed = request.iter().any(|byte| {
        std::thread::sleep(Duration::from_millis(20));
        slow.socket.write_all(&[*byte]).is_err()
    });
    assert!(closed, "a request of 1000 bytes, one every 20 ms, was allowed to take longer than 400 ms");
    idle.ping();
}

#[test]
fn a_surplus_client_is_refused_until_another_closes() {
    let store = Store::with(Keyspace::new(), Limits { connections: 2, ..Limits::default() });
    let (first, mut second) = (store.client(), store.client());
    store.connect().expect_closed();
    second.ping();
    drop(first);
    eventually("room", || store.handle.connections() == 1);
    store.client().ping();
}

#[test]
fn incomplete_requests_of_all_clients_are_bounded() {
    let store = Store::with(Keyspace::new(), Limits { incomplete: 4 << 20, ..Limits::default() });
    let mut neighbour = store.client();
    let request = Request::Set { key: key("k"), value: vec![0; 2 << 20].into() }.to_bytes();
    let mut greedy: Vec<_> = (0..8).map(|_| store.client()).collect();
    for client in &mut greedy {
        // All but the last byte. A client whose connection was closed may fail to write.
        let _ = client.socket.write_all(&request[..request.len() - 1]);
    }
    eventually("some are closed", || store.handle.connections() <= 3);
    neighbour.ping();
    drop(greedy);
    eventually("the room is free again", || store.handle.connections() == 1);
    let mut honest = store.client();
    honest.send_bytes(&request);
    honest.ping();
}

#[test]
fn a_client_that_does_not_read_delays_no_other_and_gets_all_replies_later() {
    let store = Store::start();
    let (mut lazy, mut neighbour) = (store.client(), store.client());
    let value = Bytes::from(vec![b'v'; 4 << 20]);
    neighbour.send(&Request::Set { key: key("k"), value: value.clone() });
    neighbour.ping();
    const GETS: usize = 30;
    for _ in 0..GETS {
        lazy.send(&Request::Get { key: key("k") });
    }
    for _ in 0..100 {
        neighbour.ping();
    }
    let reply = [&(value.len() as u64).to_le_bytes()[..], &value].concat();
    for _ in 0..GETS {
        lazy.expect(&reply);
    }
    lazy.ping();
}

#[test]
fn a_reply_beyond_the_limit_closes_the_connection() {
    let store = Store::with(Keyspace::new(), Limits { outgoing: 1 << 20, ..Limits::default() });
    let mut client = store.client();
    client.send(&Request::Set { key: key("k"), value: vec![0; 600 << 10].into() });
    client.send(&Request::MultiGet { keys: vec![key("k"); 2] });
    let mut rest = Vec::new();
    let _ = client.socket.read_to_end(&mut rest);
    assert!(rest.len() < 2 * (600 << 10));
    store.client().ping();
}
