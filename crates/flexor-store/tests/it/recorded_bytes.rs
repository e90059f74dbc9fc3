//! Bytes recorded between torch 2.15's clients and servers: our server must send the same, for pieces of any size.

use flexor_store::keyspace::Keyspace;

use crate::client::{Client, Store};

/// The bytes that a client sends and must get; `late` are bytes that another client sends in the meantime.
struct Step {
    what: &'static str,
    sends: &'static str,
    late: &'static str,
    gets: &'static str,
}

const fn step(what: &'static str, sends: &'static str, gets: &'static str) -> Step {
    Step { what, sends, late: "", gets }
}

const STEPS: &[Step] = &[
    step("connect", "00 cef7853c 0d 187e0000", "187e0000"),
    step("world size", "04 0500000000000000 696e69742f 0100000000000000", "0100000000000000"),
    step("set k=v1", "01 0200000000000000 2f6b 0200000000000000 7631", ""),
    step("get k: wait", "06 0100000000000000 0200000000000000 2f6b", "00"),
    step("get k", "03 0200000000000000 2f6b", "0200000000000000 7631"),
    step("add n 5", "04 0200000000000000 2f6e 0500000000000000", "0500000000000000"),
    step("add n -2", "04 0200000000000000 2f6e feffffffffffffff", "0300000000000000"),
    step("check k zz", "05 0200000000000000 0200000000000000 2f6b 0300000000000000 2f7a7a", "01"),
    step("check k", "05 0100000000000000 0200000000000000 2f6b", "00"),
    step("wait k n", "06 0200000000000000 0200000000000000 2f6b 0200000000000000 2f6e", "00"),
    step("wait zz, cancelled", "06 0100000000000000 0300000000000000 2f7a7a 0c", "01"),
    Step {
        what: "wait late, set elsewhere",
        sends: "06 0100000000000000 0500000000000000 2f6c617465",
        late: "01 0500000000000000 2f6c617465 0100000000000000 78",
        gets: "00",
    },
    step(
        "compare_set creates",
        "02 0300000000000000 2f6373 0000000000000000 0100000000000000 41",
        "0100000000000000 41",
    ),
    step(
        "compare_set A B",
        "02 0300000000000000 2f6373 0100000000000000 41 0100000000000000 42",
        "0100000000000000 42",
    ),
    step(
        "compare_set A C",
        "02 0300000000000000 2f6373 0100000000000000 41 0100000000000000 43",
        "0100000000000000 42",
    ),
    step(
        "compare_set of an absent key",
        "02 0500000000000000 2f6e6f7065 0100000000000000 41 0100000000000000 43",
        "0100000000000000 41",
    ),
    step("compare_set '' C", "02 0300000000000000 2f6373 0000000000000000 0100000000000000 43", "0100000000000000 42"),
    step("delete k", "08 0200000000000000 2f6b", "0100000000000000"),
    step("delete k again", "08 0200000000000000 2f6b", "0000000000000000"),
    step("num_keys", "07", "0400000000000000"),
    step("append ab", "09 0300000000000000 2f6170 0200000000000000 6162", ""),
    step("append cd", "09 0300000000000000 2f6170 0200000000000000 6364", ""),
    step(
        "multi_set",
        "0b 0200000000000000 0300000000000000 2f6d31 0100000000000000 78 0300000000000000 2f6d32 0200000000000000 7979",
        "",
    ),
    step(
        "multi_get: wait",
        "06 0300000000000000 0300000000000000 2f6d31 0300000000000000 2f6d32 0300000000000000 2f6170",
        "00",
    ),
    step(
        "multi_get",
        "0a 0300000000000000 0300000000000000 2f6d31 0300000000000000 2f6d32 0300000000000000 2f6170",
        "0100000000000000 78 0200000000000000 7979 0400000000000000 61626364",
    ),
    step(
        "list_keys",
        "11",
        "0700000000000000 0300000000000000 2f6170 0300000000000000 2f6373 0500000000000000 2f6c617465 \
         0300000000000000 2f6d31 0300000000000000 2f6d32 0200000000000000 2f6e 0500000000000000 696e69742f",
    ),
    step("queue_push one", "0e 0300000000000000 2f7171 0300000000000000 6f6e65", ""),
    step("queue_push two", "0e 0300000000000000 2f7171 0300000000000000 74776f", ""),
    step("queue_len", "10 0300000000000000 2f7171", "0200000000000000"),
    step("queue_pop: wait", "06 0100000000000000 0300000000000000 2f7171", "00"),
    step("queue_pop one", "0f 0300000000000000 2f7171", "0200000000000000 0300000000000000 6f6e65"),
    step("queue_pop two", "0f 0300000000000000 2f7171", "0100000000000000 0300000000000000 74776f"),
    step("queue_pop of an empty one", "0f 0300000000000000 2f7171", "0000000000000000"),
    Step {
        what: "barrier of two",
        sends: "12 0400000000000000 2f626172 0200000000000000",
        late: "12 0400000000000000 2f626172 0200000000000000",
        gets: "00",
    },
    step("the same barrier again", "12 0400000000000000 2f626172 0200000000000000", "00"),
    step("barrier, cancelled", "12 0400000000000000 2f626173 0200000000000000 0c", "01"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Plays the steps; `send` decides in which pieces the bytes of a step go out.
fn play(store: &Store<Keyspace>, send: impl Fn(&mut Client, &[u8])) {
    let (mut client, mut late) = (store.connect(), store.client());
    for step in STEPS {
        println!("{}", step.what);
        send(&mut client, &bytes(step.sends));
        if !step.late.is_empty() {
            late.send_bytes(&bytes(step.late));
        }
        client.expect(&bytes(step.gets));
    }
    client.ping();
}

#[test]
fn recorded_requests_get_the_recorded_answers() {
    play(&Store::start(), Client::send_bytes);
}

#[test]
fn recorded_requests_may_arrive_byte_by_byte() {
    play(&Store::start(), |client, bytes| bytes.chunks(1).for_each(|byte| client.send_bytes(byte)));
}

#[test]
fn requests_in_a_row_get_their_answers_in_order_wherever_they_are_cut() {
    let store = Store::start();
    // Without the steps that involve another client, and those that count its keys.
    let alone = || STEPS.iter().filter(|step| step.late.is_empty() && !step.what.contains("keys"));
    let sends: Vec<u8> = alone().flat_map(|step| bytes(step.sends)).collect();
    let gets: Vec<u8> = alone().flat_map(|step| bytes(step.gets)).collect();
    for cut in 0..sends.len() {
        store.handle.with(|keys, _, out| {
            keys.remove_prefix(b"");
            keys.set("/bar".into(), "2".into(), out);
        });
        let mut client = store.connect();
        client.send_bytes(&sends[..cut]);
        client.send_bytes(&sends[cut..]);
        client.expect(&gets);
    }
}
