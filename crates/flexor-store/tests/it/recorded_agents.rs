//! Recorded agents of every torch version against the [`RendezvousStore`](flexor_store::rendezvous_store). The timestamps
//! that an agent reads must be of the kind that it writes, because Python cannot compare a time with a zone to one without.

use std::path::Path;
use std::time::Duration;

use flexor_engine::rendezvous::Settings;
use flexor_store::codec::{Decoder, Request};
use flexor_store::service::{ConnId, Outbox};
use flexor_store::state::{RendezvousState, SENTINEL, Stamp, Zone, decode};

use crate::owner::Owner;
use crate::transcript::{From, files, read};

/// The first requests of an agent, up to the write with which it joins.
fn joining(file: &Path, connection: usize) -> Vec<Request> {
    let mut decoder = Decoder::new();
    for piece in read(file).iter().flat_map(|section| &section.pieces) {
        if piece.from == From::Client && piece.connection == connection {
            decoder.push(&piece.bytes);
        }
    }
    let mut requests = Vec::new();
    while let Some(request) = decoder.next_request().unwrap() {
        let joins = matches!(&request, Request::CompareSet { desired, .. } if desired != SENTINEL);
        requests.push(request);
        if joins {
            return requests;
        }
    }
    panic!("no agent joins on connection {connection} of {}", file.display());
}

/// The state that an agent joins with.
fn joins_with(requests: &[Request]) -> RendezvousState {
    match requests.last() {
        Some(Request::CompareSet { desired, .. }) => decode(desired).unwrap(),
        other => panic!("an agent joins with a compare-and-set, not {other:?}"),
    }
}

/// The state that a connection was sent last.
fn shown(out: &mut Outbox, conn: ConnId) -> RendezvousState {
    let sent = out.take_sent();
    let (_, reply) = sent.iter().rfind(|(to, _)| *to == conn).expect("the agent has an answer");
    decode(&reply[8..]).unwrap()
}

fn stamps(state: &RendezvousState) -> Vec<Stamp> {
    state.last_heartbeats.iter().map(|(_, stamp)| *stamp).chain(state.deadline).collect()
}

#[test]
fn agents_read_timestamps_of_the_kind_that_they_write() {
    let mut kinds = Vec::new();
    for file in files("-rendezvous.txt") {
        println!("{}", file.display());
        let settings = Settings::new(2, 2).unwrap();
        let mut owner = Owner::new(settings);
        let (mut out, mut now) = (Outbox::default(), Duration::ZERO);
        let (first, second) = (joining(&file, 1), joining(&file, 2));
        let zone = stamps(&joins_with(&first))[0].zone();
        let [a, b] = [ConnId::fresh(), ConnId::fresh()];

        for request in first {
            owner.request(a, request, now, &mut out);
        }
        out.take_sent();
        now += Duration::from_secs(2);
        owner.tick(now, &mut out);
        let waiting = shown(&mut out, a);
        assert_eq!(stamps(&waiting).len(), 2, "its heartbeat and the deadline");

        // The reply to a join is held until the tick. The agent then reads again.
        let read = Request::Get { key: "/torch.rendezvous.job".into() };
        owner.request(a, read, now, &mut out);
        for request in second {
            owner.request(b, request, now, &mut out);
        }
        let world = shown(&mut out, a);
        assert!(world.complete && world.participants.len() == 2);
        for stamp in [stamps(&waiting), stamps(&world)].concat() {
            assert_eq!(stamp.zone(), zone);
        }
        kinds.push(zone);
    }
    assert!(kinds.contains(&Zone::Utc) && kinds.contains(&Zone::Unsaid), "recordings of both kinds");
}
