//! The model of the histories: a table with one key in each of some partitions, and one dense variable.
//!
//! Asynchronous: learning rate 1, zeros, gradients of -1, so a value is the number of applied batches. Synchronous: the
//! gradients depend on the values, and the model is compared with a sequential computation of all steps.

use std::collections::{BTreeMap, BTreeSet};

use flexor_ps::layout::{Layout, TableId};
use flexor_ps::placement::PartitionId;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};

pub(crate) const TABLE: TableId = TableId(0);
pub(crate) const WEIGHTS: usize = 3;
/// Partitions with a row.
const ROWS: usize = 24;

pub(crate) fn spec() -> ModelSpec {
    ModelSpec {
        variables: vec![VariableSpec { name: "w".into(), shape: vec![WEIGHTS as u64], init: Initializer::Zeros }],
        tables: vec![TableSpec { name: "t".into(), dim: 1, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(1.0),
        seed: 1,
    }
}

/// Keys in distinct partitions, none of which has the dense variable.
pub(crate) fn keys() -> Vec<u64> {
    let layout = Layout::new(spec()).unwrap();
    let name = layout.name_hash(TABLE).unwrap();
    let mut taken: BTreeSet<PartitionId> = layout.slices().filter_map(|slice| layout.partition_of(slice)).collect();
    (0..).filter(|key| taken.insert(name.hash_key(*key).partition())).take(ROWS).collect()
}

/// The keys of a batch: a deterministic quarter of all keys.
pub(crate) fn keys_of(batch: (u32, u64), keys: &[u64]) -> Vec<u64> {
    let mixed = |key: u64| (key ^ (u64::from(batch.0) << 7) ^ batch.1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let chosen = |key: &&u64| mixed(**key) >> 62 == 0;
    keys.iter().filter(chosen).copied().collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelValues {
    pub(crate) rows: BTreeMap<u64, f32>,
    pub(crate) weights: Vec<f32>,
}

impl ModelValues {
    pub(crate) fn zeros(keys: &[u64]) -> Self {
        Self { rows: keys.iter().map(|key| (*key, 0.0)).collect(), weights: vec![0.0; WEIGHTS] }
    }
}

/// The gradient of a batch in synchronous training. It depends on the values, and sums of such numbers round.
pub(crate) fn gradient(batch: (u32, u64), at: u64, value: f32) -> f32 {
    let target = 1.0 / (1.0 + (u64::from(batch.0) * 31 + batch.1 * 7 + at * 3) as f32 % 17.0);
    (value - target) * 0.3
}

/// The values before each step of all epochs, and after the last, computed sequentially.
pub(crate) fn sequential(keys: &[u64], epochs: u32, batches: u64, batches_per_step: u64) -> Vec<ModelValues> {
    let mut values = ModelValues::zeros(keys);
    let mut all = vec![values.clone()];
    for epoch in 0..epochs {
        for first in (0..batches).step_by(batches_per_step as usize) {
            let end = (first + batches_per_step).min(batches);
            let count = (end - first) as f32;
            let before = values.clone();
            let mut rows: BTreeMap<u64, f32> = BTreeMap::new();
            let mut weights = vec![0.0_f32; WEIGHTS];
            for batch in (first..end).map(|batch| (epoch, batch)) {
                for key in keys_of(batch, keys) {
                    let gradient = gradient(batch, key, before.rows[&key]);
                    rows.entry(key).and_modify(|sum| *sum += gradient).or_insert(gradient);
                }
                for (at, sum) in weights.iter_mut().enumerate() {
                    *sum += gradient(batch, at as u64, before.weights[at]);
                }
            }
            for (key, sum) in rows {
                *values.rows.get_mut(&key).unwrap() -= sum / count;
            }
            for (value, sum) in values.weights.iter_mut().zip(weights) {
                *value -= sum / count;
            }
            all.push(values.clone());
        }
    }
    all
}
