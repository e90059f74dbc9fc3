//! The declaration of a model by workers: tables, and the initial values of variables.

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
use crate::push::RowKeys;
use crate::spec::{Initializer, ModelSpec, TableSpec, VariableSpec};

impl Parameters {
    /// Adopts the first model that a worker pushes; later ones are ignored.
    pub fn push_model(&self, model: &wire::Model) -> Result<(), Refusal> {
        let _guard = self.declaration.lock();
        if self.is_initialized.load(Ordering::Acquire) {
            return Ok(());
        }
        let declared = self.decode(model)?;
        let layout = self.declare(declared.spec.clone())?;
        self.assign(&layout, &declared)?;
        // A worker that continues an earlier training brings its version.
        self.version.store(model.version.max(0), Ordering::Release);
        self.is_initialized.store(true, Ordering::Release);
        Ok(())
    }

    /// Adds the tables that do not exist yet.
    pub fn push_table_infos(&self, model: &wire::Model) -> Result<(), Refusal> {
        let _guard = self.declaration.lock();
        let mut spec = self.hosted.layout().spec().clone();
        add_tables(&mut spec, &model.embedding_table_infos)?;
        self.declare(spec)?;
        Ok(())
    }

    /// Extends the model in all partitions at once: a checkpoint contains all of them, even those without requests.
    fn declare(&self, spec: ModelSpec) -> Result<Arc<Layout>, Refusal> {
        let layout = self.hosted.declare(spec)?;
        for partition in PartitionId::all() {
            self.hosted.with(partition, |of| of.extend(&layout))?;
        }
        Ok(layout)
    }

    /// Validates a whole model before any of it is adopted.
    fn decode(&self, model: &wire::Model) -> Result<DeclaredModel, Refusal> {
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
        Ok(DeclaredModel { spec, variables: values, rows })
    }

    fn assign(&self, layout: &Arc<Layout>, declared: &DeclaredModel) -> Result<(), Refusal> {
        for (name, weights) in &declared.variables {
            let Some(variable) = layout.variable_named(name) else { continue };
            for (slice, weights) in layout.slices_of(variable).zip(weights.chunks(SLICE_ELEMENTS as usize)) {
                let Some(partition) = layout.partition_of(slice) else { continue };
                self.hosted.with(partition, |of| of.assign_slice(layout, slice, weights)).flatten()?;
            }
        }
        for (name, keys, weights) in &declared.rows {
            let Some(table) = layout.table_named(name) else { continue };
            let Some(hash) = layout.name_hash(table) else { continue };
            let buckets = Buckets::of(hash, keys);
            let wanted = RowKeys { table, keys, buckets: &buckets };
            for partition in buckets.partitions() {
                self.hosted.with(partition, |of| of.assign_rows(layout, wanted, weights)).flatten()?;
            }
        }
        Ok(())
    }
}

/// A validated model with its values.
struct DeclaredModel {
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
        // A width of 0 is rejected by the validation of the model.
        let dim = u32::try_from(info.dim).unwrap_or(0);
        spec.tables.push(TableSpec { name: name.clone(), dim, init });
    }
    Ok(())
}
