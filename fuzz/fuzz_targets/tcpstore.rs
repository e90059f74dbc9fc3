//! Any bytes, in any pieces, are requests or an error; what a decoder holds is bounded by what it was given, and any
//! requests can be applied to a keyspace.
#![no_main]

use flexor_store::codec::Decoder;
use flexor_store::keyspace::Keyspace;
use flexor_store::service::{ConnId, Now, Outbox, Service};
use libfuzzer_sys::fuzz_target;

/// What an input may make the store send in all: far more than any honest one of its size asks for.
const MOST_SENT: usize = 256 << 20;

fuzz_target!(|bytes: &[u8]| {
    // The first byte tells how the rest is cut.
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let (mut decoder, mut keys, conn) = (Decoder::new(), Keyspace::recording(), ConnId::fresh());
    let (mut given, mut sent) = (0, 0);
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        decoder.push(piece);
        given += piece.len();
        loop {
            let mut out = Outbox::default();
            match decoder.next_request() {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(request)) => {
                    assert!(request.to_bytes().len() <= given, "a request is longer than all bytes that came");
                    if keys.request(conn, request, Now::ZERO, &mut out).is_err() {
                        return;
                    }
                    sent += out.take_sent().iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                    assert!(sent < MOST_SENT, "{sent} bytes are sent for {given}");
                }
            }
        }
        assert!(decoder.pending() <= given);
    }
    let mut again = Keyspace::new();
    for mutation in keys.take_mutations() {
        again.restore(mutation, &mut Outbox::default());
    }
    assert_eq!(again.snapshot(), keys.snapshot());
});
