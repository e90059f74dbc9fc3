//! What is in data files, and what is wrong with them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::damage::{Damage, OnDamage};
use crate::dataset::{Dataset, Options};
use crate::error::DataError;
use crate::format::Format;

/// How many records are read at once while everything is looked at.
const AT_ONCE: u64 = 4096;

/// How thoroughly files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every record is read and every checksum taken.
    Everything,
    /// Only what tells how many records there are.
    Headers,
}

/// What is in files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Their format.
    pub format: Format,
    /// How many records they have, damaged ones included.
    pub records: u64,
    /// How many records were found to be damaged.
    pub damaged_records: u64,
    /// The names of the columns, of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// The files.
    pub files: Vec<FileInspection>,
    /// What is wrong.
    pub damage: Vec<Damage>,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileInspection {
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many records it has.
    pub records: u64,
    /// How many chunks, of RecordIO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<usize>,
    /// How many of them use which compressor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub compressors: BTreeMap<String, usize>,
}

/// Looks at files. `told` hears how many records have been read, of how many.
///
/// # Errors
///
/// They cannot be read at all. What is damaged is told, not an error.
pub fn inspect(
    paths: &[PathBuf],
    options: &Options,
    depth: Depth,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(Dataset, Inspection), DataError> {
    let dataset = Dataset::open(paths, &Options { on_damage: OnDamage::Skip, ..*options })?;
    if depth == Depth::Everything {
        let mut next = 0;
        while next < dataset.len() {
            let end = dataset.len().min(next + AT_ONCE);
            dataset.read(next..end, &mut |_| {})?;
            told(end, dataset.len());
            next = end;
        }
    }
    let damage = dataset.damage();
    let damaged_records = damage.iter().filter_map(|damage| damage.records.as_ref()).map(|r| r.end - r.start).sum();
    let files = dataset.files().map(|file| {
        let mut compressors = BTreeMap::new();
        for chunk in file.chunks.unwrap_or_default() {
            *compressors.entry(chunk.header.compressor.to_string()).or_default() += 1;
        }
        let chunks = file.chunks.map(<[_]>::len);
        FileInspection { path: file.path.to_owned(), bytes: file.bytes, records: file.records, chunks, compressors }
    });
    let inspection = Inspection {
        format: dataset.format(),
        records: dataset.len(),
        damaged_records,
        columns: dataset.columns().map(<[_]>::to_vec),
        files: files.collect(),
        damage,
    };
    Ok((dataset, inspection))
}
