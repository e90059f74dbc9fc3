//! The states that agents of each recorded torch version wrote, and the differences between the versions.
//!
//! In each recording agent a joins, b completes the round, c joins when the world is full, and a closes the run.

use std::collections::BTreeMap;
use std::path::Path;

use super::transcript::{self, From};
use super::*;
use crate::codec::{Decoder, Request};

/// The torch release of a recording.
type Version = (u32, u32);

/// A value that an agent wrote, and its state.
struct RecordedWrite {
    pickle: Vec<u8>,
    state: RendezvousState,
}

/// All recordings of agents, with their writes in order.
fn recordings() -> Vec<(Version, Vec<RecordedWrite>)> {
    transcript::files("-rendezvous.txt").iter().map(|file| (version(file), written(file))).collect()
}

/// `(2, 5)` of `torch-2.5.1-rendezvous.txt`.
fn version(file: &Path) -> Version {
    let name = file.file_name().unwrap().to_str().unwrap();
    let mut numbers = name.trim_start_matches("torch-").split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn written(file: &Path) -> Vec<RecordedWrite> {
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
                    all.push(RecordedWrite { pickle: STANDARD.decode(desired).unwrap(), state });
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
fn the_states_of_all_versions_are_read_from_the_rendezvous_to_the_end() {
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
fn timestamps_are_read_and_written_as_each_version_writes_them() {
    for (version, written) in recordings() {
        let zone = if version < (2, 6) { Zone::Unsaid } else { Zone::Utc };
        for RecordedWrite { state, .. } in written {
            let heartbeats = state.last_heartbeats.iter().map(|(_, stamp)| *stamp);
            for stamp in heartbeats.chain(state.deadline) {
                assert_eq!(stamp.zone(), zone, "torch {version:?}");
            }
            assert_eq!(decode(&encode(&state)), Ok(state), "torch {version:?}");
        }
    }
}

#[test]
fn torch_2_2_has_no_redundancy_list_and_later_versions_do() {
    for (version, written) in recordings() {
        let has_list = version > (2, 2);
        let name = b"redundancy_list";
        let is_named = |pickle: &[u8]| pickle.windows(name.len()).any(|part| part == name);
        assert!(written.iter().all(|value| is_named(&value.pickle) == has_list), "torch {version:?}");
        let standbys = addrs(written.iter().flat_map(|value| &value.state.redundancy_list));
        assert_eq!(standbys.contains(&"c"), has_list, "torch {version:?}");
    }
}
