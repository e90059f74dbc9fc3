//! Inspects data files: their content and their damage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::csv;
use crate::damage::{Damage, OnDamage};
use crate::dataset::{Content, Dataset, Options, Record};
use crate::error::DataError;
use crate::format::Format;

/// Records per read.
const READ_BATCH: u64 = 4096;

/// The depth of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Reads every record and checks every checksum.
    Everything,
    /// Reads only the headers, to count records.
    Headers,
}

/// The result of an inspection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    pub format: Format,
    /// All records, including damaged ones.
    pub records: u64,
    /// Damaged records.
    pub damaged_records: u64,
    /// The column names of a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    pub files: Vec<FileInspection>,
    pub damage: Vec<Damage>,
}

/// The content of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileInspection {
    pub path: PathBuf,
    pub bytes: u64,
    pub records: u64,
    /// Only for RecordIO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<usize>,
    /// Chunks by compressor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub compressors: BTreeMap<String, usize>,
}

/// Inspects files. `on_progress` receives the read records and all records.
///
/// # Errors
///
/// The files cannot be read at all. Damage is part of the result, not an error.
pub fn inspect(
    paths: &[PathBuf],
    options: &Options,
    depth: Depth,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(Dataset, Inspection), DataError> {
    let dataset = Dataset::open(paths, &Options { on_damage: OnDamage::Skip, ..*options })?;
    let mut ragged = RaggedRows::of(&dataset);
    if depth == Depth::Everything {
        let mut next = 0;
        while next < dataset.len() {
            let end = dataset.len().min(next + READ_BATCH);
            dataset.read(next..end, &mut |record| ragged.examine(record))?;
            on_progress(end, dataset.len());
            next = end;
        }
    }
    let mut damage = dataset.damage();
    damage.extend(ragged.into_damage(&dataset)?);
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

/// Collects rows whose number of fields differs from the number of columns, such as the last row of a truncated file.
#[derive(Default)]
struct RaggedRows {
    is_table: bool,
    /// From the header or the first row.
    columns: Option<usize>,
    runs: Vec<Run>,
}

/// Consecutive uneven rows of one file.
struct Run {
    file: PathBuf,
    /// The first row's number in the dataset; `in_file` is its number in the file.
    first: u64,
    in_file: u64,
    count: u64,
    /// The fields of the first row.
    fields: usize,
}

impl RaggedRows {
    fn of(dataset: &Dataset) -> Self {
        let columns = dataset.columns().map(<[_]>::len);
        Self { is_table: dataset.format() == Format::Csv, columns, runs: Vec::new() }
    }

    fn examine(&mut self, record: Record<'_>) {
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

    fn into_damage(self, dataset: &Dataset) -> Result<Vec<Damage>, DataError> {
        let columns = self.columns.unwrap_or_default();
        let mut found: Vec<Damage> = Vec::with_capacity(self.runs.len());
        for Run { file, first, in_file, count, fields } in self.runs {
            let offset = dataset.location(first)?.offset.unwrap_or_default();
            // Lines are counted from the run before, so each file is read once.
            let before = found.last().filter(|before| before.file == file);
            let (from, line) = before.map_or((0, 1), |before| (before.offset, before.line.unwrap_or(1)));
            let line = line + dataset.line_feeds(first, from..offset)?;
            let last = dataset.files().any(|one| one.path == file && one.records == in_file + count);
            let cut = if last && fields < columns { "; was the file truncated?" } else { "" };
            let row = if count == 1 { "the row" } else { "the first row" };
            let flaw = format!("{}{cut}", csv::uneven(row, fields, columns));
            found.push(Damage { file, offset, line: Some(line), records: Some(in_file..in_file + count), flaw });
        }
        Ok(found)
    }
}
