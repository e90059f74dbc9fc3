//! Export of a model for serving: one safetensors file with the weights only.
//!
//! Variables have their names and shapes. Each table has `NAME@keys` (u64, ascending) and `NAME@values` (f32, a row per
//! key). Slots, step counts and ledgers are omitted. The metadata has the specification, so a reader can compute the
//! initial values of rows that were never trained.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use safetensors::Dtype;
use serde::Serialize;

use super::dense_file::{DenseFile, OwnedTensor};
use super::manifest::Contents;
use super::restore::{Checkpoint, TableFileSource};
use super::{CheckpointError, CheckpointId};
use crate::layout::{Layout, SliceId};
use crate::little_endian::{put_floats, put_longs};
use crate::piece::PieceBody;
use crate::spec::{Fingerprint, ModelSpec};
use crate::table::RecordShape;

/// The metadata, stored as JSON under the name `flexor`.
#[derive(Serialize)]
struct PlainModelMetadata<'a> {
    checkpoint: CheckpointId,
    fingerprint: Fingerprint,
    model: &'a ModelSpec,
}

/// Writes the plain model of a checkpoint. The whole model is in memory meanwhile.
pub fn export_plain(checkpoint: &Checkpoint<'_>, out: &mut dyn Write) -> Result<(), CheckpointError> {
    const NAME: &str = "the plain model";
    let manifest = checkpoint.manifest();
    let layout = Layout::new(manifest.model.clone())
        .map_err(|error| CheckpointError::damaged(&manifest.id.manifest(), 0, error))?;
    let mut tensors = variables(checkpoint, &layout)?;
    tensors.extend(tables(checkpoint, &layout)?);
    // A single entry, because the order of several would differ from file to file.
    let metadata =
        PlainModelMetadata { checkpoint: manifest.id, fingerprint: manifest.fingerprint, model: &manifest.model };
    let metadata = serde_json::to_string(&metadata).unwrap_or_default();
    let metadata = HashMap::from([("flexor".to_owned(), metadata)]);
    let bytes = safetensors::serialize(tensors, Some(metadata))
        .map_err(|error| CheckpointError::storage("encode", NAME)(io::Error::other(error)))?;
    out.write_all(&bytes).map_err(CheckpointError::storage("write", NAME))
}

fn variables(checkpoint: &Checkpoint<'_>, layout: &Arc<Layout>) -> Result<Vec<(String, OwnedTensor)>, CheckpointError> {
    let mut variables: Vec<Vec<f32>> =
        layout.spec().variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
    let mut missing: Vec<SliceId> = layout.slices().collect();
    for entry in checkpoint.of(Contents::Dense) {
        let bytes = checkpoint.read_verified(entry)?;
        let file = DenseFile::from_bytes(&bytes).map_err(|error| CheckpointError::damaged(&entry.name, 0, error))?;
        missing.retain(|slice| match (file.values(layout, *slice), layout.elements(*slice)) {
            (Some(values), Some(elements)) => {
                let elements = elements.start as usize..elements.end as usize;
                let weights = &values[..elements.len()];
                variables[slice.variable as usize][elements].copy_from_slice(weights);
                false
            }
            (None, _) | (_, None) => true,
        });
    }
    if let Some(slice) = missing.first() {
        let why = format!("no file contains {slice}");
        return Err(CheckpointError::damaged(&checkpoint.manifest().id.manifest(), 0, why));
    }
    let tensors = layout.spec().variables.iter().zip(variables).map(|(variable, values)| {
        let mut bytes = Vec::with_capacity(values.len() * 4);
        put_floats(&mut bytes, &values);
        let shape = variable.shape.iter().map(|side| *side as usize).collect();
        (variable.name.clone(), OwnedTensor { dtype: Dtype::F32, shape, bytes })
    });
    Ok(tensors.collect())
}

fn tables(checkpoint: &Checkpoint<'_>, layout: &Arc<Layout>) -> Result<Vec<(String, OwnedTensor)>, CheckpointError> {
    let (slots, counts_steps) = (layout.kernel().slots(), layout.kernel().counts_steps());
    let mut rows: Vec<Vec<(u64, Vec<f32>)>> = layout.tables().iter().map(|_| Vec::new()).collect();
    for entry in checkpoint.of(Contents::Tables) {
        let mut file = TableFileSource::open(checkpoint, entry)?;
        for partition in &entry.partitions {
            for piece in file.pieces(*partition)? {
                if let PieceBody::Rows { table, words, .. } = piece.0
                    && let (Some(of), Some(rows)) = (layout.table(table), rows.get_mut(table.0 as usize))
                {
                    let shape = RecordShape { dim: of.dim, slots, counts_steps };
                    let records = words.chunks_exact(shape.words());
                    rows.extend(records.map(|record| (shape.key(record), shape.weights(record).to_vec())));
                }
            }
        }
    }
    let mut tensors = Vec::new();
    for (table, mut rows) in layout.spec().tables.iter().zip(rows) {
        rows.sort_by_key(|(key, _)| *key);
        let keys: Vec<u64> = rows.iter().map(|(key, _)| *key).collect();
        let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
        put_longs(&mut key_bytes, &keys);
        rows.iter().for_each(|(_, values)| put_floats(&mut value_bytes, values));
        let (count, dim) = (keys.len(), table.dim as usize);
        let (keys, values) = (format!("{}@keys", table.name), format!("{}@values", table.name));
        tensors.push((keys, OwnedTensor { dtype: Dtype::U64, shape: vec![count], bytes: key_bytes }));
        tensors.push((values, OwnedTensor { dtype: Dtype::F32, shape: vec![count, dim], bytes: value_bytes }));
    }
    Ok(tensors)
}
