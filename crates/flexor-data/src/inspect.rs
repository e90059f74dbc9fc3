//! What is in data files, and what is wrong with them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::csv;
use crate::damage::{Damage, OnDamage};
use crate::dataset::{Content, Dataset, Options, Record};
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
    let mut ragged = Ragged::of(&dataset);
    if depth == Depth::Everything {
        let mut next = 0;
        while next < dataset.len() {
            let end = dataset.len().min(next + AT_ONCE);
            dataset.read(next..end, &mut |record| ragged.look(record))?;
            told(end, dataset.len());
            next = end;
        }
    }
    let mut damage = dataset.damage();
    damage.extend(ragged.found(&dataset)?);
    let order = |damage: &Damage| dataset.files().position(|file| file.path == damage.file);
    damage.sort_by_key(|damage| (order(damage), damage.offset));
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

/// Rows of a table that have not as many fields as it has columns, as the last row of a file that was cut.
#[derive(Default)]
struct Ragged {
    is_table: bool,
    /// As its header says, or its first row.
    columns: Option<usize>,
    runs: Vec<Run>,
}

/// Such rows, one after the other in one file.
struct Run {
    file: PathBuf,
    /// In the dataset, and in the file.
    first: u64,
    in_file: u64,
    count: u64,
    /// Of the first of them.
    fields: usize,
}

impl Ragged {
    fn of(dataset: &Dataset) -> Self {
        let columns = dataset.columns().map(<[_]>::len);
        Self { is_table: dataset.format() == Format::Csv, columns, runs: Vec::new() }
    }

    fn look(&mut self, record: Record<'_>) {
        let (true, Content::Whole(bytes)) = (self.is_table, record.content) else { return };
        let fields = csv::fields(bytes).count();
        if fields == *self.columns.get_or_insert(fields) {
            return;
        }
        match self.runs.last_mut() {
            Some(run) if run.in_file + run.count == record.in_file && run.file == record.file => run.count += 1,
            Some(_) | None => {
                let (file, first, in_file) = (record.file.to_owned(), record.number, record.in_file);
                self.runs.push(Run { file, first, in_file, count: 1, fields });
            }
        }
    }

    fn found(self, dataset: &Dataset) -> Result<Vec<Damage>, DataError> {
        let columns = self.columns.unwrap_or_default();
        let mut found: Vec<Damage> = Vec::with_capacity(self.runs.len());
        for Run { file, first, in_file, count, fields } in self.runs {
            let offset = dataset.place(first)?.offset.unwrap_or_default();
            // Lines are counted on from the run before, so that a file is gone through once.
            let before = found.last().filter(|before| before.file == file);
            let (from, line) = before.map_or((0, 1), |before| (before.offset, before.line.unwrap_or(1)));
            let line = line + dataset.line_feeds(first, from..offset)?;
            let last = dataset.files().any(|one| one.path == file && one.records == in_file + count);
            let cut = if last && fields < columns { "; was the file cut?" } else { "" };
            let row = if count == 1 { "the row" } else { "the first row" };
            let flaw = format!("{}{cut}", csv::uneven(row, fields, columns));
            found.push(Damage { file, offset, line: Some(line), records: Some(in_file..in_file + count), flaw });
        }
        Ok(found)
    }
}
