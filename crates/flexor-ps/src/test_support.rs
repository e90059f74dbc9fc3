//! A model for tests, and a simple reference model that every server must match bit for bit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::hosted::HostedPartitions;
use crate::layout::{Layout, SliceId, TableId};
use crate::partition::{PartOutcome, PartitionError, PushOptions};
use crate::placement::{PartitionId, mix};
use crate::push::{NonFinite, Push, RowGradients, RowKeys, SliceGradient};
use crate::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};

/// A model with two tables, a small variable and a variable of several slices.
pub(crate) fn layout(optimizer: Optimizer) -> Arc<Layout> {
    let table = |name: &str, dim, init| TableSpec { name: name.into(), dim, init };
    let variable = |name: &str, shape: &[u64], init| VariableSpec { name: name.into(), shape: shape.into(), init };
    let spec = ModelSpec {
        variables: vec![
            variable("bias", &[3], Initializer::Zeros),
            variable("dense/kernel", &[70_000], Initializer::GlorotUniform),
        ],
        tables: vec![table("users", 5, Initializer::UNIFORM), table("items", 2, Initializer::NORMAL)],
        optimizer,
        seed: 11,
    };
    Layout::new(spec).unwrap()
}

pub(crate) fn optimizers() -> [Optimizer; 4] {
    let momentum = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, nesterov: true };
    [Optimizer::sgd(0.1), momentum, Optimizer::adagrad(0.1), Optimizer::adam(0.01)]
}

pub(crate) fn batch(number: u64) -> BatchId {
    BatchId { dataset: 0, epoch: 0, first: number * 32, len: 32 }
}

/// The gradients of a batch.
#[derive(Debug, Clone)]
pub(crate) struct TestGradients {
    pub(crate) batch: Option<BatchId>,
    pub(crate) tables: Vec<(TableId, Vec<u64>, Vec<f32>)>,
    pub(crate) slices: Vec<(SliceId, u32, Vec<f32>)>,
}

impl TestGradients {
    /// Deterministic gradients of a batch, with repeated keys.
    pub(crate) fn of_batch(layout: &Layout, number: u64) -> Self {
        let noise = |i: u64| (mix(number << 32 ^ i) % 2001) as f32 / 1000.0 - 1.0;
        let table = |id: u32| {
            let keys: Vec<u64> = (0..24).map(|i| key(mix(number * 1000 + i + u64::from(id)) % 40)).collect();
            let values = keys.len() * layout.dim(TableId(id)).unwrap();
            (TableId(id), keys, (0..values as u64).map(|i| noise(i + 7 * u64::from(id))).collect())
        };
        let slice = |variable, index, offset: u32, len: u64| {
            let gradient = (0..len).map(|i| noise(i + u64::from(offset))).collect();
            (SliceId { variable, index }, offset, gradient)
        };
        // The small variable, two overlapping parts of one slice, and in every third batch the other slice.
        let mut slices = vec![slice(0, 0, 0, 3), slice(1, 1, 10, 40), slice(1, 1, 30, 20)];
        if number.is_multiple_of(3) {
            slices.push(slice(1, 0, 0, 65_536));
        }
        Self { batch: Some(batch(number)), tables: vec![table(0), table(1)], slices }
    }

    /// Calls `work` with the gradients as a push.
    pub(crate) fn with<T>(&self, layout: &Layout, work: impl FnOnce(&Push<'_>) -> T) -> T {
        let buckets: Vec<Buckets> =
            self.tables.iter().map(|(table, keys, _)| Buckets::of(layout.name_hash(*table).unwrap(), keys)).collect();
        let rows = self.tables.iter().zip(&buckets);
        let rows: Vec<_> = rows
            .map(|((table, keys, gradients), buckets)| RowGradients { table: *table, keys, buckets, gradients })
            .collect();
        let slices = self.slices.iter();
        let slices: Vec<_> = slices
            .map(|(slice, offset, gradient)| SliceGradient { slice: *slice, offset: *offset, gradient })
            .collect();
        let (batch, non_finite) = (self.batch, NonFinite::Refuse);
        work(&Push { batch, learning_rate: 0.0, rows: &rows, slices: &slices, non_finite })
    }

    pub(crate) fn push(&self, hosted: &HostedPartitions) -> Vec<(PartitionId, Result<PartOutcome, PartitionError>)> {
        self.push_on(hosted, |_| PushOptions::default())
    }

    pub(crate) fn push_on(
        &self,
        hosted: &HostedPartitions,
        terms: impl Fn(PartitionId) -> PushOptions,
    ) -> Vec<(PartitionId, Result<PartOutcome, PartitionError>)> {
        self.with(&hosted.layout(), |push| hosted.push(&hosted.check(push).unwrap(), terms))
    }
}

/// Every third key is large.
pub(crate) fn key(number: u64) -> u64 {
    if number.is_multiple_of(3) { mix(number) } else { number }
}

/// All keys of [`TestGradients::of_batch`] and some more.
pub(crate) fn keys() -> Vec<u64> {
    (0..50).map(key).collect()
}

/// A model without pages, partitions or snapshots.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceModel {
    layout: Arc<Layout>,
    rows: BTreeMap<(TableId, u64), (u32, Vec<f32>)>,
    slices: BTreeMap<SliceId, (u32, Vec<f32>)>,
}

impl ReferenceModel {
    pub(crate) fn new(layout: &Arc<Layout>) -> Self {
        let slice = |slice: SliceId| {
            let elements = layout.elements(slice).unwrap();
            let mut values = vec![0.0; (elements.end - elements.start) as usize];
            layout.initial_slice(slice, &mut values);
            values.resize(values.len() * (1 + layout.kernel().slots()), layout.kernel().initial_slot());
            (slice, (0, values))
        };
        Self { layout: Arc::clone(layout), rows: BTreeMap::new(), slices: layout.slices().map(slice).collect() }
    }

    /// Applies the average of some batches as one step.
    pub(crate) fn apply(&mut self, batches: &[TestGradients]) {
        let count = batches.len() as f32;
        let mut rows: BTreeMap<(TableId, u64), Vec<f32>> = BTreeMap::new();
        let mut slices: BTreeMap<SliceId, BTreeMap<usize, f32>> = BTreeMap::new();
        for gradients in batches {
            for (table, keys, values) in &gradients.tables {
                let dim = self.layout.dim(*table).unwrap();
                for (key, row) in keys.iter().zip(values.chunks(dim)) {
                    let sum = rows.entry((*table, *key)).or_insert_with(|| vec![0.0; dim]);
                    sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                }
            }
            for (slice, offset, values) in &gradients.slices {
                let sums = slices.entry(*slice).or_default();
                for (element, value) in (*offset as usize..).zip(values) {
                    *sums.entry(element).or_default() += value;
                }
            }
        }
        let layout = Arc::clone(&self.layout);
        let step = layout.kernel().step(layout.kernel().rate(0.0, 0));
        for ((table, key), mut sum) in rows {
            sum.iter_mut().for_each(|sum| *sum /= count);
            let (steps, values) =
                self.rows.entry((table, key)).or_insert_with(|| (0, initial_values(&layout, table, key)));
            *steps += 1;
            step.take(values, sum.len(), 0..sum.len(), &sum, *steps);
        }
        for (slice, sums) in slices {
            let (steps, values) = self.slices.get_mut(&slice).unwrap();
            *steps += 1;
            let width = values.len() / (1 + layout.kernel().slots());
            for (element, sum) in sums {
                step.take(values, width, element..element + 1, &[sum / count], *steps);
            }
        }
    }

    pub(crate) fn weights(&self, table: TableId, key: u64) -> Vec<f32> {
        let dim = self.layout.dim(table).unwrap();
        let stored = self.rows.get(&(table, key)).map(|(_, values)| values.clone());
        stored.unwrap_or_else(|| initial_values(&self.layout, table, key))[..dim].to_vec()
    }

    pub(crate) fn slice(&self, slice: SliceId) -> &[f32] {
        let (_, values) = &self.slices[&slice];
        &values[..values.len() / (1 + self.layout.kernel().slots())]
    }

    /// Asserts that a server has the same model, including slots and step counts of every trained row.
    pub(crate) fn assert_matches(&self, hosted: &HostedPartitions) {
        for table in [TableId(0), TableId(1)] {
            for key in keys() {
                let partition = self.layout.name_hash(table).unwrap().hash_key(key).partition();
                let found = hosted.with(partition, |partition| partition.record(table, key)).unwrap();
                let wanted = self.rows.get(&(table, key)).cloned();
                let untouched = || Some((0, initial_values(&self.layout, table, key)));
                let steps_matter = self.layout.kernel().counts_steps();
                let steps = |(steps, values): (u32, Vec<f32>)| (if steps_matter { steps } else { 0 }, values);
                match (found, wanted) {
                    (found, None) => assert!(found.is_none() || found == untouched(), "row {key} of {table:?}"),
                    (found, wanted) => assert_eq!(found.map(steps), wanted.map(steps), "row {key} of {table:?}"),
                }
            }
        }
        for (slice, (steps, values)) in &self.slices {
            let partition = self.layout.partition_of(*slice).unwrap();
            let found = hosted.with(partition, |partition| partition.slice_state(*slice)).unwrap();
            assert!(found == Some((*steps, values.clone())), "{slice}");
        }
    }
}

fn initial_values(layout: &Layout, table: TableId, key: u64) -> Vec<f32> {
    let of = layout.table(table).unwrap();
    let mut values = vec![0.0; of.dim];
    of.initial.row(of.name.hash_key(key), &mut values);
    values.resize(of.dim * (1 + layout.kernel().slots()), layout.kernel().initial_slot());
    values
}

pub(crate) fn read(hosted: &HostedPartitions, table: TableId, reading: crate::hosted::ReadMode) -> Vec<Vec<f32>> {
    let (layout, keys, mut out) = (hosted.layout(), keys(), Vec::new());
    let buckets = Buckets::of(layout.name_hash(table).unwrap(), &keys);
    let turned = hosted.pull(RowKeys { table, keys: &keys, buckets: &buckets }, reading, &mut out).unwrap();
    assert_eq!(turned, []);
    out.chunks(layout.dim(table).unwrap()).map(<[f32]>::to_vec).collect()
}
