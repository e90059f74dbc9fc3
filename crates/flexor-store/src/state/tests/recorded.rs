//! The states that real agents of each recorded torch wrote: what differs between the versions, and that we read it.
//!
//! In each recording agent a joins, b completes the round, c comes when there is no place left, and a closes the run.

use std::collections::BTreeMap;
use std::path::Path;

use super::transcript::{self, From};
use super::*;
use crate::codec::{Decoder, Request};

/// The release that a recording was made with.
type Version = (u32, u32);

/// A value that an agent wrote, and the state that it is.
struct Written {
    pickle: Vec<u8>,
    state: RendezvousState,
}

/// All recordings of agents: what they wrote, in its order.
fn recordings() -> Vec<(Version, Vec<Written>)> {
    transcript::files("-rendezvous.txt").iter().map(|file| (version(file), written(file))).collect()
}

/// `(2, 5)` of `torch-2.5.1-rendezvous.txt`.
fn version(file: &Path) -> Version {
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut numbers = name.trim_start_matches("torch-").split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn written(file: &Path) -> Vec<Written> {
    let mut all = Vec::new();
    for section in transcript::read(file) {
        let mut decoders = BTreeMap::<usize, Decoder>::new();
        for piece in section.pieces.iter().filter(|piece| piece.from == From::Client) {
            let decoder = decoders.entry(piece.connection).or_default();
            decoder.push(&piece.bytes);
            while let Some(request) = decoder.next_request().unwrap() {
                if let Request::CompareSet { desired, .. } = request
                    && desired != SENTINEL
                {
                    let state = decode(&desired)
                        .unwrap_or_else(|refused| panic!("{}, line {}: {refused}", section.name, piece.line));
                    all.push(Written { pickle: STANDARD.decode(desired).unwrap(), state });
                }
            }
        }
    }
    all
}

fn addrs<'a>(nodes: impl Iterator<Item = &'a NodeDesc>) -> Vec<&'a str> {
    nodes.map(|node| &*node.addr).collect()
}

#[test]
fn agents_of_any_version_are_read_as_they_meet_and_end() {
    for (version, written) in recordings() {
        let participants = |state: &RendezvousState| addrs(state.participants.iter().map(|(node, _)| node)).concat();
        let (first, last) = (&written.first().unwrap().state, &written.last().unwrap().state);
        assert_eq!((participants(first).as_str(), first.complete), ("a", false), "torch {version:?}");
        assert!(first.deadline.is_some(), "torch {version:?}");
        assert_eq!((participants(last).as_str(), last.complete), ("ab", true), "torch {version:?}");
        assert!(last.closed, "torch {version:?}");
    }
}

#[test]
fn times_are_read_and_written_the_way_each_version_writes_them() {
    for (version, written) in recordings() {
        let zone = if version < (2, 6) { Zone::Unsaid } else { Zone::Utc };
        for Written { state, .. } in written {
            let heartbeats = state.last_heartbeats.iter().map(|(_, stamp)| *stamp);
            for stamp in heartbeats.chain(state.deadline) {
                assert_eq!(stamp.zone(), zone, "torch {version:?}");
            }
            assert_eq!(decode(&encode(&state)), Ok(state), "torch {version:?}");
        }
    }
}

#[test]
fn torch_2_2_has_no_list_of_spares_and_later_versions_do() {
    for (version, written) in recordings() {
        let has_list = version > (2, 2);
        let name = b"redundancy_list";
        let is_named = |pickle: &[u8]| pickle.windows(name.len()).any(|part| part == name);
        assert!(written.iter().all(|value| is_named(&value.pickle) == has_list), "torch {version:?}");
        let spares = addrs(written.iter().flat_map(|value| &value.state.redundancy_list));
        assert_eq!(spares.contains(&"c"), has_list, "torch {version:?}");
    }
}
