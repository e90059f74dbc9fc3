//! Verification of files that are larger than the verification buffer.

use super::*;
use crate::buckets::Buckets;
use crate::checkpoint::restore::VERIFY_BYTES;
use crate::hosted::ReadMode;
use crate::push::RowKeys;
use crate::spec::{Initializer, ModelSpec, TableSpec};

/// A checkpoint with a table file of more than nine MiB, and the name of that file.
fn saved() -> (InMemory, String) {
    let wide = TableSpec { name: "wide".into(), dim: 8192, init: Initializer::Zeros };
    let spec = ModelSpec { variables: vec![], tables: vec![wide], optimizer: Optimizer::sgd(0.1), seed: 0 };
    let layout = Layout::new(spec).unwrap();
    let (storage, training, table) = (InMemory::default(), servers(&layout, 1), TableId(0));
    let keys: Vec<u64> = (0..300).collect();
    let buckets = Buckets::of(layout.name_hash(table).unwrap(), &keys);
    training[0].pull(RowKeys { table, keys: &keys, buckets: &buckets }, ReadMode::Train, &mut Vec::new()).unwrap();
    let manifest = save(&storage, 1, &training).unwrap();
    assert!(manifest.files[0].bytes > 9 * CHECKSUM_EVERY as u64, "{}", manifest.files[0].bytes);
    let name = format!("{}/{}", CheckpointId(1).directory(), manifest.files[0].name);
    (storage, name)
}

fn verify(storage: &InMemory) -> Result<(), CheckpointError> {
    Checkpoint::open(storage, CheckpointId(1)).unwrap().verify()
}

#[test]
fn verification_memory_does_not_depend_on_the_file_size() {
    let (storage, _) = saved();
    verify(&storage).unwrap();
    assert_eq!(storage.largest_read(), VERIFY_BYTES);
}

#[test]
fn a_flipped_bit_is_located_in_any_mib() {
    let (storage, name) = saved();
    let bytes = storage.files()[&name].len();
    for start in (0..bytes).step_by(CHECKSUM_EVERY) {
        let end = bytes.min(start + CHECKSUM_EVERY);
        for byte in [start, end - 1] {
            let error = verify(&storage.with_flipped_bit(&name, byte, byte % 8)).unwrap_err();
            let CheckpointError::Damaged { file, offset, .. } = &error else { panic!("byte {byte}: {error}") };
            assert_eq!((file, *offset), (&name, start as u64), "byte {byte}");
        }
    }
}
