//! Files that are larger than memory has room for are verified all the same.

use super::*;
use crate::buckets::Buckets;
use crate::checkpoint::restore::COMPARED_AT_ONCE;
use crate::hosted::Reading;
use crate::push::Wanted;
use crate::spec::{Initializer, ModelSpec, TableSpec};

/// A checkpoint with a file of tables of more than nine MiB, and the name of that file.
fn saved() -> (InMemory, String) {
    let wide = TableSpec { name: "wide".into(), dim: 8192, init: Initializer::Zeros };
    let spec = ModelSpec { variables: vec![], tables: vec![wide], optimizer: Optimizer::sgd(0.1), seed: 0 };
    let layout = Layout::new(spec).unwrap();
    let (storage, training, table) = (InMemory::default(), servers(&layout, 1), TableId(0));
    let keys: Vec<u64> = (0..300).collect();
    let buckets = Buckets::of(layout.name_hash(table).unwrap(), &keys);
    training[0].pull(Wanted { table, keys: &keys, buckets: &buckets }, Reading::Train, &mut Vec::new()).unwrap();
    let manifest = save(&storage, 1, &training).unwrap();
    assert!(manifest.files[0].bytes > 9 * CHECKSUM_EVERY as u64, "{}", manifest.files[0].bytes);
    let name = format!("{}/{}", CheckpointId(1).folder(), manifest.files[0].name);
    (storage, name)
}

fn verify(storage: &InMemory) -> Result<(), CheckpointError> {
    Checkpoint::open(storage, CheckpointId(1)).unwrap().verify()
}

#[test]
fn verifying_takes_the_same_memory_whatever_the_size_of_a_file() {
    let (storage, _) = saved();
    verify(&storage).unwrap();
    assert_eq!(storage.largest_read(), COMPARED_AT_ONCE);
}

#[test]
fn a_flipped_bit_is_named_whichever_mib_it_is_in() {
    let (storage, name) = saved();
    let bytes = storage.files()[&name].len();
    for start in (0..bytes).step_by(CHECKSUM_EVERY) {
        let end = bytes.min(start + CHECKSUM_EVERY);
        for place in [start, end - 1] {
            let error = verify(&storage.with_flipped_bit(&name, place, place % 8)).unwrap_err();
            let CheckpointError::Damaged { file, offset, .. } = &error else { panic!("byte {place}: {error}") };
            assert_eq!((file, *offset), (&name, start as u64), "byte {place}");
        }
    }
}
