//! Parsers take anything.

use flexor_dialects::manifest;
use proptest::{
    prelude::*,
    test_runner::{FailurePersistence, FileFailurePersistence},
};

use crate::manifest_files;

/// Every manifest of the repository, as something to start from.
fn seeds() -> Vec<Vec<u8>> {
    ["examples", "testdata/published", "testdata/warned"]
        .into_iter()
        .flat_map(manifest_files::below)
        .map(|file| file.bytes)
        .collect()
}

/// What a slip of the hand, a broken disk or an enemy does to a file.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
    Repeat(prop::sample::Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let scrap = prop::sample::select(vec![
        ": ",
        "- ",
        "\n",
        "  ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "'",
        "\"",
        "null",
        "-1",
        "1e999",
        "99999999999999999999",
        "~",
        "\t",
        "---\n",
        "...",
        "|",
        ">",
        "#",
        "\u{0}",
        "\u{2028}",
        "apiVersion: v2",
    ]);
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<prop::sample::Index>(), 1..40_usize).prop_map(|(at, n)| Mutation::Remove(at, n)),
        (any::<prop::sample::Index>(), scrap).prop_map(|(at, text)| Mutation::Insert(at, text.as_bytes().to_vec())),
        (any::<prop::sample::Index>(), 1..80_usize).prop_map(|(at, n)| Mutation::Repeat(at, n)),
    ]
}

fn apply(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if bytes.is_empty() {
            break;
        }
        match mutation {
            Mutation::Replace(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Mutation::Remove(at, n) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + n).min(bytes.len()));
            }
            Mutation::Insert(at, text) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, text.iter().copied());
            }
            Mutation::Repeat(at, n) => {
                let at = at.index(bytes.len());
                let piece = bytes[at..(at + n).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Failures that were found once are kept beside this file and tried first.
fn regressions() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: regressions(), ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = manifest::check(&bytes);
    }

    #[test]
    fn a_damaged_manifest_is_judged_without_panic_and_always_the_same(
        seed in prop::sample::select(seeds()),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let bytes = apply(seed, &mutations);
        prop_assert_eq!(manifest::check(&bytes), manifest::check(&bytes));
    }
}
