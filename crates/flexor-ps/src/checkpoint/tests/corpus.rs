//! Checks that each input in the corpus of the fuzz target `checkpoint` behaves as its name says.

use std::fs;
use std::io;
use std::path::Path;

use crate::checkpoint::{Manifest, TableFile, TableFileError};
use crate::layout::Layout;
use crate::partition::PartitionImport;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

fn seed(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/checkpoint").join(name)).unwrap()
}

/// The row counts of the partitions of a table file.
fn rows(bytes: &[u8]) -> Result<Vec<(PartitionId, u64)>, TableFileError> {
    let tables = vec![TableSpec { name: "users".to_owned(), dim: 2, init: Initializer::Zeros }];
    let spec = ModelSpec { variables: vec![], tables, optimizer: Optimizer::adam(0.1), seed: 1 };
    let layout = Layout::new(spec).unwrap();
    let mut read = |range: std::ops::Range<u64>| {
        let range = range.start as usize..range.end as usize;
        bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let file = TableFile::open(bytes.len() as u64, &mut read)?;
    let mut rows = Vec::new();
    for partition in file.partitions() {
        let mut import = PartitionImport::new(&layout, partition);
        for piece in file.pieces(partition, &mut read)? {
            import.add(piece).unwrap();
        }
        rows.push((partition, import.finish().unwrap().rows()));
    }
    Ok(rows)
}

#[test]
fn valid_files_of_the_corpus_are_read() {
    let rows = rows(&seed("table_file")).unwrap();
    assert_eq!((rows.len(), rows.iter().map(|(_, rows)| rows).sum()), (3, 12));
    assert_eq!(self::rows(&seed("table_file_of_nothing")).unwrap(), []);
    let manifest = Manifest::from_bytes(&seed("manifest")).unwrap();
    assert_eq!((manifest.versions.len(), &manifest.ledger[..]), (3, &b"ledger"[..]));
    for name in ["piece_head", "piece_rows", "piece_waiting_rows", "piece_end"] {
        assert_eq!(Piece::from_bytes(&seed(name)).unwrap().to_bytes(), seed(name));
    }
}

#[test]
fn damaged_files_of_the_corpus_are_rejected() {
    for name in ["table_file_cut_off", "table_file_with_another_place", "table_file_with_a_flipped_bit", "empty"] {
        assert!(matches!(rows(&seed(name)), Err(TableFileError::Damaged { .. })), "{name}");
    }
    assert!(Manifest::from_bytes(&seed("manifest_cut_off")).is_err());
    assert!(Manifest::from_bytes(&seed("empty")).is_err());
    assert!(Piece::from_bytes(&seed("piece_with_huge_length")).unwrap_err().to_string().contains("4294967295 bytes"));
}
