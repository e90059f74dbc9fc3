//! Histories of a keyspace. The integration tests compare it with a naive model over random histories.

use bytes::Bytes;

use super::{Change, Keyspace, Mutation};
use crate::codec::Request;
use crate::service::{ConnId, Now, Outbox, Service};

fn b(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn wait(keys: &[&'static str]) -> Request {
    Request::Wait { keys: keys.iter().map(|key| b(key)).collect() }
}

fn set(key: &'static str, value: &'static str) -> Request {
    Request::Set { key: b(key), value: b(value) }
}

fn push(queue: &'static str, value: &'static str) -> Request {
    Request::QueuePush { key: b(queue), value: b(value) }
}

/// A keyspace and its outbox.
struct Story {
    keys: Keyspace,
    out: Outbox,
}

impl Story {
    fn new() -> Story {
        Story { keys: Keyspace::recording(), out: Outbox::default() }
    }

    /// Serves a request. Returns what the store sent, by connection.
    fn then(&mut self, conn: ConnId, request: Request) -> Vec<(ConnId, Bytes)> {
        self.keys.request(conn, request, Now::ZERO, &mut self.out).unwrap();
        self.out.take_sent()
    }
}

#[test]
fn one_set_wakes_exactly_the_waiters_of_the_key() {
    let (mut story, [one, two, other, setter]) = (Story::new(), [(); 4].map(|()| ConnId::fresh()));
    assert_eq!(story.then(one, wait(&["a"])), []);
    assert_eq!(story.then(two, wait(&["a", "b"])), []);
    assert_eq!(story.then(other, wait(&["c"])), []);
    assert_eq!(story.then(setter, set("a", "1")), [(one, b("\0"))]);
    assert_eq!(story.keys.waiting_for(two), Some(vec![b("b")]));
    assert_eq!(story.then(setter, set("b", "1")), [(two, b("\0"))]);
    assert_eq!(story.keys.waiting_for(two), None);
    assert_eq!(story.keys.waiting_for(other), Some(vec![b("c")]));
}

#[test]
fn a_key_that_was_set_and_deleted_fulfils_its_part_of_a_wait() {
    let (mut story, waiter, setter) = (Story::new(), ConnId::fresh(), ConnId::fresh());
    story.then(waiter, wait(&["a", "b"]));
    story.then(setter, set("a", "1"));
    story.then(setter, Request::DeleteKey { key: b("a") });
    assert_eq!(story.then(setter, set("b", "1")), [(waiter, b("\0"))]);
}

#[test]
fn after_cancel_wait_no_answer_to_the_wait_is_sent() {
    let (mut story, waiter, setter) = (Story::new(), ConnId::fresh(), ConnId::fresh());
    story.then(waiter, wait(&["a"]));
    assert_eq!(story.then(waiter, Request::CancelWait), [(waiter, b("\x01"))]);
    assert_eq!(story.then(setter, set("a", "1")), []);
    // With no wait outstanding, because its answer crossed the cancellation, the client still expects one.
    assert_eq!(story.then(waiter, Request::CancelWait), [(waiter, b("\x01"))]);
}

#[test]
fn the_waits_of_a_closed_connection_vanish_and_its_data_stays() {
    let (mut story, gone, setter) = (Story::new(), ConnId::fresh(), ConnId::fresh());
    story.then(gone, set("k", "v"));
    story.then(gone, wait(&["a"]));
    story.keys.closed(gone, Now::ZERO, &mut story.out);
    assert_eq!(story.then(setter, set("a", "1")), []);
    assert_eq!(story.keys.get(b"k"), Some(&b("v")));
}

#[test]
fn a_queue_serves_its_waiters_in_order() {
    let (mut story, [first, second, pusher]) = (Story::new(), [(); 3].map(|()| ConnId::fresh()));
    story.then(second, set("k", "v"));
    story.then(first, wait(&["q"]));
    story.then(second, wait(&["q"]));
    assert_eq!(story.then(pusher, push("q", "x")), [(first, b("\0"))]);
    assert_eq!(story.then(pusher, push("q", "y")), [(second, b("\0"))]);
    // An item in the queue fulfils another wait, although it is no key.
    assert_eq!(story.then(first, wait(&["q"])), [(first, b("\0"))]);
    assert_eq!(story.then(first, Request::GetNumKeys), [(first, b("\x01\0\0\0\0\0\0\0"))]);
}

#[test]
fn adding_to_text_is_refused_with_the_key() {
    let mut story = Story::new();
    let conn = ConnId::fresh();
    story.then(conn, set("name", "abc"));
    for request in [Request::Add { key: b("name"), delta: 1 }, Request::Barrier { key: b("name"), world_size: 2 }] {
        let refused = story.keys.request(conn, request, Now::ZERO, &mut story.out).unwrap_err();
        assert_eq!(refused.reason, "'name' holds 'abc', which is not a number to count with; use another key");
    }
}

#[test]
fn the_size_of_an_appended_value_is_limited() {
    let mut story = Story::new();
    let (conn, value) = (ConnId::fresh(), Bytes::from(vec![b'x'; 8 << 20]));
    let append = || Request::Append { key: b("k"), value: value.clone() };
    for _ in 0..8 {
        story.then(conn, append());
    }
    assert!(story.keys.request(conn, append(), Now::ZERO, &mut story.out).is_err());
    assert_eq!(story.keys.get(b"k").unwrap().len(), 64 << 20);
}

#[test]
fn keys_of_the_process_are_like_those_of_clients() {
    let (mut story, waiter) = (Story::new(), ConnId::fresh());
    story.then(waiter, wait(&["round/1/a"]));
    story.keys.set(b("round/1/a"), b("x"), &mut story.out);
    assert_eq!(story.out.take_sent(), [(waiter, b("\0"))]);
    for key in ["round/10", "round", "sound"] {
        story.keys.set(b(key), b(""), &mut story.out);
    }
    story.then(waiter, push("round/queue", "x"));
    let keys = |prefix: &[u8]| story.keys.keys_with_prefix(prefix).cloned().collect::<Vec<_>>();
    assert_eq!(keys(b"round/"), ["round/1/a", "round/10"]);
    assert_eq!(keys(b"zzz"), [] as [Bytes; 0]);
    assert_eq!(story.keys.remove_prefix(b"round/"), 3);
    assert!(story.keys.delete(b"round") && !story.keys.delete(b"round"));
    assert_eq!(story.keys.snapshot().len(), story.keys.len());
    assert_eq!(story.keys.len(), 1);
}

#[test]
fn every_change_is_recorded_once_with_a_rising_number() {
    let mut story = Story::new();
    let conn = ConnId::fresh();
    story.then(conn, set("a", "1"));
    story.then(conn, Request::Add { key: b("a"), delta: 4 });
    story.then(conn, Request::CompareSet { key: b("a"), expected: b("no"), desired: b("2") });
    story.then(conn, push("q", "x"));
    story.then(conn, Request::QueuePop { key: b("q") });
    story.then(conn, Request::QueuePop { key: b("q") });
    story.then(conn, Request::DeleteKey { key: b("a") });
    let change = |seq, key, change| Mutation { seq, key: b(key), change };
    let expected = [
        change(1, "a", Change::Set(b("1"))),
        change(2, "a", Change::Set(b("5"))),
        change(3, "q", Change::Pushed(b("x"))),
        change(4, "q", Change::Popped { pushed: 3 }),
        change(5, "a", Change::Deleted),
    ];
    assert_eq!(story.keys.take_mutations(), expected);
    assert_eq!(story.keys.take_mutations(), []);
    assert_eq!(story.keys.last_seq(), 5);
}

#[test]
fn a_restored_key_wakes_its_waiters_and_later_changes_have_greater_numbers() {
    let (mut story, waiter) = (Story::new(), ConnId::fresh());
    story.then(waiter, wait(&["a"]));
    let restored = Mutation { seq: 40, key: b("a"), change: Change::Set(b("1")) };
    assert!(story.keys.restore(restored.clone(), &mut story.out));
    assert_eq!(story.out.take_sent(), [(waiter, b("\0"))]);
    assert!(!story.keys.restore(restored.clone(), &mut story.out));
    story.keys.delete(b"a");
    assert!(!story.keys.restore(restored, &mut story.out), "a later deletion wins");
    assert_eq!(story.keys.take_mutations()[0].seq, 41);
    story.keys.end_recovery();
}
