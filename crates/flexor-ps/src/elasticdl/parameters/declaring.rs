//! What workers bring before they train: tables, and the first values of variables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flexor_wire::elasticdl as wire;

use super::Parameters;
use crate::buckets::Buckets;
use crate::elasticdl::Refusal;
use crate::elasticdl::gradients::{keys_of, rows_of};
use crate::elasticdl::tensor::Tensor;
use crate::layout::Layout;
use crate::placement::{PartitionId, SLICE_ELEMENTS};
use crate::push::Wanted;
use crate::spec::{Initializer, ModelSpec, TableSpec, VariableSpec};

impl Parameters {
    /// Takes the first model that comes, as it is; later ones change nothing.
    pub fn push_model(&self, model: &wire::Model) -> Result<(), Refusal> {
        let _one = self.declaring.lock();
        if self.is_initialized.load(Ordering::Acquire) {
            return Ok(());
        }
        let values = self.read(model)?;
        let layout = self.declare(values.spec.clone())?;
        self.assign(&layout, &values)?;
        // A worker that has trained elsewhere brings its version along.
        self.version.store(model.version.max(0), Ordering::Release);
        self.is_initialized.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes tables that are not there yet.
    pub fn push_table_infos(&self, model: &wire::Model) -> Result<(), Refusal> {
        let _one = self.declaring.lock();
        let mut spec = self.hosted.layout().spec().clone();
        add_tables(&mut spec, &model.embedding_table_infos)?;
        self.declare(spec)?;
        Ok(())
    }

    /// Adds to the model, in all partitions at once: a checkpoint has all of them, also those that nobody asks.
    fn declare(&self, spec: ModelSpec) -> Result<Arc<Layout>, Refusal> {
        let layout = self.hosted.declare(spec)?;
        for partition in PartitionId::all() {
            self.hosted.with(partition, |of| of.extend(&layout))?;
        }
        Ok(layout)
    }

    /// Looks at all of a model before anything of it is taken.
    fn read(&self, model: &wire::Model) -> Result<Values, Refusal> {
        let mut spec = self.hosted.layout().spec().clone();
        add_tables(&mut spec, &model.embedding_table_infos)?;
        let mut values = Vec::new();
        for (name, proto) in &model.dense_parameters {
            let tensor = Tensor::of(name, Some(proto))?;
            values.push((name.clone(), tensor.floats()));
            spec.variables.push(VariableSpec { name: name.clone(), shape: tensor.shape, init: Initializer::Zeros });
        }
        let mut rows = Vec::new();
        for (name, of) in &model.embedding_tables {
            let unknown = || Refusal::Unknown(name.clone());
            let table = spec.tables.iter().find(|table| table.name == *name).ok_or_else(unknown)?;
            if let Some(values) = rows_of(name, of, table.dim.into())? {
                rows.push((name.clone(), keys_of(&of.ids), values));
            }
        }
        Ok(Values { spec, variables: values, rows })
    }

    fn assign(&self, layout: &Arc<Layout>, values: &Values) -> Result<(), Refusal> {
        for (name, weights) in &values.variables {
            let Some(variable) = layout.variable_named(name) else { continue };
            for (slice, weights) in layout.slices_of(variable).zip(weights.chunks(SLICE_ELEMENTS as usize)) {
                let Some(partition) = layout.partition_of(slice) else { continue };
                self.hosted.with(partition, |of| of.assign_slice(layout, slice, weights)).flatten()?;
            }
        }
        for (name, keys, weights) in &values.rows {
            let Some(table) = layout.table_named(name) else { continue };
            let Some(hash) = layout.name_hash(table) else { continue };
            let buckets = Buckets::of(hash, keys);
            let wanted = Wanted { table, keys, buckets: &buckets };
            for partition in buckets.partitions() {
                self.hosted.with(partition, |of| of.assign_rows(layout, wanted, weights)).flatten()?;
            }
        }
        Ok(())
    }
}

/// A model that was looked at.
struct Values {
    spec: ModelSpec,
    variables: Vec<(String, Vec<f32>)>,
    rows: Vec<(String, Vec<u64>, Vec<f32>)>,
}

fn add_tables(spec: &mut ModelSpec, infos: &[wire::EmbeddingTableInfo]) -> Result<(), Refusal> {
    for info in infos {
        let name = &info.name;
        if let Some(table) = spec.tables.iter().find(|table| table.name == *name) {
            if i64::from(table.dim) != info.dim {
                return Err(Refusal::Width { name: name.clone(), width: table.dim, asked: info.dim });
            }
            continue;
        }
        let init = info.initializer.parse::<Initializer>();
        let init = init.map_err(|why| Refusal::Initializer { name: name.clone(), why })?;
        // A width that is none is refused with the rest of the model.
        let dim = u32::try_from(info.dim).unwrap_or(0);
        spec.tables.push(TableSpec { name: name.clone(), dim, init });
    }
    Ok(())
}
