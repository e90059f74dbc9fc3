//! A model for serving: one safetensors file with what was learnt and nothing else.
//!
//! Variables under their names and shapes; of each table `NAME@keys` (u64, ascending) and `NAME@values` (f32, a row for
//! each key). Slots, step counts and ledgers are left out. The metadata has the specification, so that rows that nobody
//! trained can be computed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use safetensors::Dtype;
use serde::Serialize;

use super::dense_file::{DenseFile, Tensor};
use super::manifest::Contents;
use super::restore::{Checkpoint, Rows};
use super::{CheckpointError, CheckpointId};
use crate::layout::{Layout, SliceId};
use crate::little_endian::{put_floats, put_longs};
use crate::piece::Part;
use crate::spec::{Fingerprint, ModelSpec};
use crate::table::RecordShape;

/// What the metadata tells, as JSON under the name `flexor`.
#[derive(Serialize)]
struct About<'a> {
    checkpoint: CheckpointId,
    fingerprint: Fingerprint,
    model: &'a ModelSpec,
}

/// Writes the plain model of a checkpoint. The whole of it is in memory while it is made.
pub fn export_plain(checkpoint: &Checkpoint<'_>, out: &mut dyn Write) -> Result<(), CheckpointError> {
    const NAME: &str = "the plain model";
    let manifest = checkpoint.manifest();
    let layout = Layout::new(manifest.model.clone())
        .map_err(|error| CheckpointError::damaged(&manifest.id.manifest(), 0, error))?;
    let mut tensors = variables(checkpoint, &layout)?;
    tensors.extend(tables(checkpoint, &layout)?);
    // One entry, because the order of several would change from file to file.
    let about = About { checkpoint: manifest.id, fingerprint: manifest.fingerprint, model: &manifest.model };
    let about = serde_json::to_string(&about).unwrap_or_default();
    let metadata = HashMap::from([("flexor".to_owned(), about)]);
    let bytes = safetensors::serialize(tensors, Some(metadata))
        .map_err(|error| CheckpointError::storage("make", NAME)(io::Error::other(error)))?;
    out.write_all(&bytes).map_err(CheckpointError::storage("write", NAME))
}

fn variables(checkpoint: &Checkpoint<'_>, layout: &Arc<Layout>) -> Result<Vec<(String, Tensor)>, CheckpointError> {
    let mut whole: Vec<Vec<f32>> =
        layout.spec().variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
    let mut missing: Vec<SliceId> = layout.slices().collect();
    for entry in checkpoint.of(Contents::Dense) {
        let bytes = checkpoint.whole(entry)?;
        let file = DenseFile::from_bytes(&bytes).map_err(|error| CheckpointError::damaged(&entry.name, 0, error))?;
        missing.retain(|slice| match (file.values(layout, *slice), layout.elements(*slice)) {
            (Some(values), Some(elements)) => {
                let elements = elements.start as usize..elements.end as usize;
                let weights = &values[..elements.len()];
                whole[slice.variable as usize][elements].copy_from_slice(weights);
                false
            }
            (None, _) | (_, None) => true,
        });
    }
    if let Some(slice) = missing.first() {
        let why = format!("{slice} is in none of its files");
        return Err(CheckpointError::damaged(&checkpoint.manifest().id.manifest(), 0, why));
    }
    let tensors = layout.spec().variables.iter().zip(whole).map(|(variable, values)| {
        let mut bytes = Vec::with_capacity(values.len() * 4);
        put_floats(&mut bytes, &values);
        let shape = variable.shape.iter().map(|side| *side as usize).collect();
        (variable.name.clone(), Tensor { dtype: Dtype::F32, shape, bytes })
    });
    Ok(tensors.collect())
}

fn tables(checkpoint: &Checkpoint<'_>, layout: &Arc<Layout>) -> Result<Vec<(String, Tensor)>, CheckpointError> {
    let (slots, counts_steps) = (layout.kernel().slots(), layout.kernel().counts_steps());
    let mut rows: Vec<Vec<(u64, Vec<f32>)>> = layout.tables().iter().map(|_| Vec::new()).collect();
    for entry in checkpoint.of(Contents::Tables) {
        let mut file = Rows::open(checkpoint, entry)?;
        for partition in &entry.partitions {
            for piece in file.pieces(*partition)? {
                if let Part::Rows { table, words, .. } = piece.0
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
        tensors.push((keys, Tensor { dtype: Dtype::U64, shape: vec![count], bytes: key_bytes }));
        tensors.push((values, Tensor { dtype: Dtype::F32, shape: vec![count, dim], bytes: value_bytes }));
    }
    Ok(tensors)
}
