//! Tests of lookup, initial values and memory overhead.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::spec::Initializer;

const NAME: NameHash = NameHash(77);

fn initial(dim: usize) -> InitialValues {
    InitialValues::of_table(NAME, dim as u32, Initializer::UNIFORM, 1)
}

fn table(dim: usize, slots: usize, counts_steps: bool) -> Table {
    Table::new(NAME, RecordShape { dim, slots, counts_steps })
}

proptest! {
    #[test]
    fn every_key_finds_its_row(
        keys in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>()], 0..400),
        dim in 1_usize..70,
        slots in 0_usize..3,
        counts_steps: bool,
    ) {
        let (mut table, initial) = (table(dim, slots, counts_steps), initial(dim));
        let (mut snapshots, mut written) = (Snapshots::default(), HashMap::new());
        for (i, key) in keys.iter().enumerate() {
            let row = table.find_or_insert(NAME.hash_key(*key), *key, &initial, 0.5);
            let of_row = table.row_mut(row, 0, &mut snapshots);
            prop_assert_eq!(of_row.values.len(), dim * (1 + slots));
            prop_assert_eq!(of_row.steps.is_some(), counts_steps);
            of_row.values.fill(i as f32);
            written.insert(*key, i as f32);
        }
        prop_assert_eq!(table.rows() as usize, written.len());
        for (key, value) in written {
            let row = table.find(NAME.hash_key(key), key).unwrap();
            prop_assert!(table.weights(row).iter().all(|weight| *weight == value));
        }
        prop_assert_eq!(table.find(NAME.hash_key(9_999), 9_999), None);
    }
}

#[test]
fn a_new_row_has_its_initial_values() {
    let (mut table, initial) = (table(4, 2, true), initial(4));
    let row = table.find_or_insert(NAME.hash_key(5), 5, &initial, 0.1);
    let mut wanted = [0.0; 4];
    initial.row(NAME.hash_key(5), &mut wanted);
    let mut snapshots = Snapshots::default();
    let of_row = table.row_mut(row, 0, &mut snapshots);
    assert_eq!(
        (of_row.steps.copied(), &of_row.values[..4], &of_row.values[4..]),
        (Some(0), &wanted[..], &[0.1; 8][..])
    );
}

#[test]
fn a_million_rows_stay_below_the_memory_limit() {
    for (dim, slots, counts_steps, limit) in
        [(8, 0, false, 2.5), (8, 2, true, 2.5), (16, 1, false, 2.0), (64, 0, false, 2.0)]
    {
        // The share of one of 256 partitions of a million rows.
        let (mut table, initial) = (table(dim, slots, counts_steps), initial(dim));
        for key in 0..3_906 {
            table.find_or_insert(NAME.hash_key(key), key, &initial, 0.0);
        }
        let payload = 3_906 * (8 + dim * (1 + slots) * 4);
        let ratio = table.bytes() as f64 / payload as f64;
        assert!(ratio < limit, "dim {dim} with {slots} slots: {ratio:.2} times its payload");
    }
}
