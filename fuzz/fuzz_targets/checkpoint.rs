//! Any bytes are a manifest, a table file or a piece of a partition, or refused; never a panic, never memory for what is
//! not there. What was read of a partition can be written and read again.
#![no_main]

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use flexor_ps::checkpoint::{Manifest, TableFile};
use flexor_ps::layout::Layout;
use flexor_ps::partition::PartitionImport;
use flexor_ps::piece::Piece;
use flexor_ps::placement::PartitionId;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec};
use libfuzzer_sys::fuzz_target;

/// The model of the corpus.
static LAYOUT: LazyLock<Arc<Layout>> = LazyLock::new(|| {
    let tables = vec![TableSpec { name: "users".to_owned(), dim: 2, init: Initializer::Zeros }];
    let spec = ModelSpec { variables: vec![], tables, optimizer: Optimizer::adam(0.1), seed: 1 };
    Layout::new(spec).expect("the model of the corpus can be")
});

/// The head of partition 0, without which no other piece is taken.
const HEAD: &[u8] = include_bytes!("../corpus/checkpoint/piece_head");

fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = Manifest::from_bytes(bytes) {
        assert_eq!(Manifest::from_bytes(&manifest.to_bytes()).expect("what was read can be written"), manifest);
    }
    if let Ok(piece) = Piece::from_bytes(bytes) {
        let _ = PartitionImport::new(&LAYOUT, PartitionId(0)).add(piece);
    }
    // The same behind a checksum, which no fuzzer guesses.
    if let Some((kind, contents)) = bytes.split_first()
        && let Ok(piece) = Piece::from_contents((*kind).into(), contents)
    {
        let written = piece.to_bytes();
        let again = Piece::from_bytes(&written).expect("what was read can be written");
        assert_eq!(again.to_bytes(), written);
        let mut arriving = PartitionImport::new(&LAYOUT, PartitionId(0));
        arriving.add(Piece::from_bytes(HEAD).expect("the head of the corpus")).expect("the head comes first");
        let _ = arriving.add(piece);
    }
    let mut read = |range: Range<u64>| {
        let range = range.start as usize..range.end as usize;
        bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let Ok(file) = TableFile::open(bytes.len() as u64, &mut read) else { return };
    for partition in file.partitions() {
        let Ok(pieces) = file.pieces(partition, &mut read) else { continue };
        let mut arriving = PartitionImport::new(&LAYOUT, partition);
        let arrived = pieces.into_iter().try_for_each(|piece| {
            let again = Piece::from_bytes(&piece.to_bytes()).expect("what was read can be written");
            arriving.add(again)
        });
        if arrived.is_ok() {
            let _ = arriving.finish();
        }
    }
});
