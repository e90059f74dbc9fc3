//! Invalid pushes are rejected with a message before any state changes.

use std::sync::Arc;

use super::*;
use crate::layout::Layout;
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};

fn layout() -> Arc<Layout> {
    let spec = ModelSpec {
        variables: vec![VariableSpec { name: "w:0".into(), shape: vec![4, 2], init: Initializer::Ones }],
        tables: vec![TableSpec { name: "e".into(), dim: 4, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(0.1),
        seed: 0,
    };
    Layout::new(spec).unwrap()
}

fn dense(offset: u32, gradient: &[f32]) -> Result<u64, BadRequest> {
    let slice = SliceId { variable: 0, index: 0 };
    let slices = &[SliceGradient { slice, offset, gradient }];
    let push = Push { batch: None, learning_rate: 0.0, rows: &[], slices, non_finite: NonFinite::Refuse };
    CheckedPush::new(&layout(), &push).map(|checked| checked.skipped())
}

fn rows(table: u32, keys: &[u64], gradients: &[f32], non_finite: NonFinite) -> Result<u64, BadRequest> {
    let layout = layout();
    let buckets = Buckets::of(layout.name_hash(TableId(0)).unwrap(), keys);
    let rows = &[RowGradients { table: TableId(table), keys, buckets: &buckets, gradients }];
    let push = Push { batch: None, learning_rate: 0.0, rows, slices: &[], non_finite };
    CheckedPush::new(&layout, &push).map(|checked| checked.skipped())
}

#[test]
fn gradients_of_the_wrong_size_are_refused() {
    assert_eq!(dense(0, &[1.0; 8]), Ok(0));
    assert_eq!(dense(6, &[1.0; 2]), Ok(0));
    let wrong: [(u32, &[f32]); 4] = [(0, &[1.0; 9]), (0, &[]), (7, &[1.0; 2]), (u32::MAX, &[1.0])];
    for (offset, gradient) in wrong {
        let refusal = dense(offset, gradient).unwrap_err().to_string();
        assert!(refusal.contains("slice 0 of variable 0 of 'w:0' has 8 elements"), "{refusal}");
    }
    let too_many = vec![1.0; 1_000_000];
    assert!(matches!(dense(0, &too_many), Err(BadRequest::SliceRange { given: 1_000_000, .. })));
}

#[test]
fn rows_of_the_wrong_width_or_table_are_refused() {
    assert_eq!(rows(0, &[1, 2], &[0.5; 8], NonFinite::Refuse), Ok(0));
    let narrow = rows(0, &[1], &[0.5; 3], NonFinite::Refuse).unwrap_err();
    assert_eq!(narrow.to_string(), "table 'e' has rows of 4 values, so 1 keys need 4 and not 3");
    let unknown = rows(1, &[1], &[0.5; 4], NonFinite::Refuse).unwrap_err();
    assert_eq!(unknown.to_string(), "the model has no table number 1; it has 1");
}

#[test]
fn non_finite_gradients_are_rejected_or_skipped_as_requested() {
    let gradients = [0.0, 0.0, 0.0, 0.0, 1.0, f32::NAN, 0.0, 0.0, 0.0, 0.0, f32::INFINITY, 0.0];
    let refusal = rows(0, &[5, 6, 7], &gradients, NonFinite::Refuse).unwrap_err().to_string();
    assert!(refusal.contains("'e' is not finite (row of key 6)"), "{refusal}");
    assert_eq!(rows(0, &[5, 6, 7], &gradients, NonFinite::Skip), Ok(2));
    assert!(matches!(dense(0, &[f32::NEG_INFINITY; 8]), Err(BadRequest::NotFinite { .. })));
}

#[test]
fn a_partition_whose_gradients_are_all_skipped_still_records_the_push() {
    let (layout, slice) = (layout(), SliceId { variable: 0, index: 0 });
    let slices = &[SliceGradient { slice, offset: 0, gradient: &[f32::NAN; 8] }];
    let push = Push { batch: None, learning_rate: 0.0, rows: &[], slices, non_finite: NonFinite::Skip };
    let checked = CheckedPush::new(&layout, &push).unwrap();
    assert_eq!((checked.skipped(), checked.partitions().collect()), (1, vec![layout.partition_of(slice).unwrap()]));
}

#[test]
fn buckets_of_other_keys_are_rejected() {
    let layout = layout();
    let buckets = Buckets::of(layout.name_hash(TableId(0)).unwrap(), &[1, 2, 3]);
    let wanted = RowKeys { table: TableId(0), keys: &[1, 2], buckets: &buckets };
    assert!(matches!(wanted.check(&layout), Err(BadRequest::Buckets { keys: 2, sorted: 3, .. })));
}

#[test]
fn an_empty_batch_or_an_infinite_learning_rate_is_rejected() {
    let batch = Some(BatchId { dataset: 0, epoch: 0, first: 0, len: 0 });
    let push = Push { batch, learning_rate: 0.0, rows: &[], slices: &[], non_finite: NonFinite::Refuse };
    assert_eq!(CheckedPush::new(&layout(), &push).unwrap_err(), BadRequest::EmptyBatch);
    let push = Push { batch: None, learning_rate: f32::INFINITY, ..push };
    assert!(matches!(CheckedPush::new(&layout(), &push), Err(BadRequest::LearningRate(_))));
}
