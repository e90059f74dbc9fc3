//! Recordings of torch's own clients and servers, from 2.2 on: our server must send the same bytes, for pieces of any size.

use std::collections::BTreeMap;

use flexor_store::keyspace::Keyspace;

use crate::client::{Client, Store};
use crate::transcript::{From, Section, files, read};

/// Plays the clients of a recording to our server; `send` decides in which pieces their bytes go out.
fn play(section: &Section, send: impl Fn(&mut Client, &[u8])) {
    let store = Store::<Keyspace>::start();
    let mut clients = BTreeMap::new();
    for piece in &section.pieces {
        // Printed only if the test fails.
        println!("{}, line {}", section.name, piece.line);
        let client = clients.entry(piece.connection).or_insert_with(|| store.connect());
        match piece.from {
            From::Client => send(client, &piece.bytes),
            From::Server => client.expect(&piece.bytes),
        }
    }
    clients.values_mut().for_each(Client::ping);
}

#[test]
fn every_recorded_call_gets_the_recorded_answer() {
    for section in files(".txt").iter().flat_map(|file| read(file)) {
        play(&section, Client::send_bytes);
    }
}

#[test]
fn recorded_calls_may_arrive_byte_by_byte() {
    for section in files(".txt").iter().flat_map(|file| read(file)) {
        play(&section, |client, bytes| bytes.chunks(1).for_each(|byte| client.send_bytes(byte)));
    }
}

#[test]
fn recorded_calls_may_be_cut_anywhere() {
    // Recordings of agents are long, and their kinds of requests occur in the others too.
    for section in files(".txt").difference(&files("-rendezvous.txt")).flat_map(|file| read(file)) {
        let longest = section.pieces.iter().map(|piece| piece.bytes.len()).max().unwrap_or(0);
        for cut in 1..longest {
            play(&section, |client, bytes| {
                let (begin, end) = bytes.split_at(cut.min(bytes.len()));
                client.send_bytes(begin);
                client.send_bytes(end);
            });
        }
    }
}
