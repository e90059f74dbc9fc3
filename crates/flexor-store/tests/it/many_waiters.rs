//! One SET wakes a thousand waiting clients.

use std::time::{Duration, Instant};

use flexor_store::codec::Request;

use crate::client::Store;

const CLIENTS: usize = 1000;

#[test]
fn a_thousand_waiters_are_woken_by_one_set_each_exactly_once() {
    let store = Store::start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| store.client()).collect();
    for client in &mut clients {
        client.send(&Request::Wait { keys: vec!["go".into()] });
        // The reply to the PING arrives first and shows that the wait is registered.
        client.ping();
    }
    let start = Instant::now();
    store.client().send(&Request::Set { key: "go".into(), value: "1".into() });
    clients.iter_mut().for_each(|client| client.expect(&[0]));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    clients.iter_mut().for_each(crate::client::Client::ping);
}

#[test]
fn the_answer_to_a_wait_never_follows_its_cancellation() {
    let store = Store::start();
    let (mut waiter, mut setter) = (store.client(), store.client());
    for round in 0..2000 {
        let key = format!("key{round}");
        waiter.send(&Request::Wait { keys: vec![key.clone().into()] });
        setter.send(&Request::Set { key: key.into(), value: "1".into() });
        waiter.send(&Request::CancelWait);
        let mut first = [0];
        std::io::Read::read_exact(&mut waiter.socket, &mut first).unwrap();
        if first == [0] {
            waiter.expect(&[1]);
        } else {
            assert_eq!(first, [1]);
        }
        waiter.ping();
    }
}

#[test]
fn the_process_itself_can_wake_clients() {
    let store = Store::start();
    let mut client = store.client();
    client.send(&Request::Wait { keys: vec!["go".into()] });
    client.ping();
    store.handle.with(|keys, _, out| keys.set("go".into(), "1".into(), out));
    client.expect(&[0]);
}
