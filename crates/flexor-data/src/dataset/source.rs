//! One file of a dataset, in any format.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use crate::csv;
use crate::damage::Damage;
use crate::data_file::DataFile;
use crate::error::DataError;
use crate::format::{CsvHeader, Format};
use crate::idx::IdxPair;
use crate::lines::{LineIndex, Lines, LinesError, TruncatedRow, line_feeds};
use crate::recordio::{Chunk, ChunkCache, FileKey, Index, Unread};

/// A file with its index.
#[derive(Debug)]
pub(super) enum Source {
    RecordIo { file: DataFile, index: Index },
    Lines { file: DataFile, index: LineIndex },
    Idx(IdxPair),
}

/// Why a range cannot be read.
pub(super) enum Failure {
    /// The records from `from` up to `until` are damaged, as far as they are in the range.
    Damaged {
        from: u64,
        until: u64,
        damage: Damage,
    },
    Error(DataError),
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::Error(error)
    }
}

impl Source {
    pub(super) fn open(path: &Path, format: Format, header: CsvHeader) -> Result<Self, DataError> {
        let lines = match format {
            Format::Idx => return IdxPair::open(path).map(Self::Idx),
            Format::RecordIo => {
                let (file, content) = DataFile::open(path)?;
                let index = Index::of(&content).map_err(DataError::io(path));
                let index = index.map_err(|error| unless_changed(&file, &content, error))?;
                return Ok(Self::RecordIo { file, index });
            }
            Format::Csv => Lines::Csv,
            Format::Text => Lines::Text,
        };
        let (file, content) = DataFile::open(path)?;
        let index = LineIndex::of(&content, lines, header).map_err(|error| of_lines(path, error));
        let index = index.map_err(|error| unless_changed(&file, &content, error))?;
        Ok(Self::Lines { file, index })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::RecordIo { file, .. } | Self::Lines { file, .. } => file.path(),
            Self::Idx(pair) => pair.path(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::RecordIo { file, .. } | Self::Lines { file, .. } => file.size(),
            Self::Idx(pair) => pair.size(),
        }
    }

    pub(super) fn records(&self) -> u64 {
        match self {
            Self::RecordIo { index, .. } => index.records(),
            Self::Lines { index, .. } => index.records(),
            Self::Idx(pair) => pair.records(),
        }
    }

    pub(super) fn chunks(&self) -> Option<&[Chunk]> {
        match self {
            Self::RecordIo { index, .. } => Some(index.chunks()),
            Self::Lines { .. } | Self::Idx(_) => None,
        }
    }

    /// The header line.
    pub(super) fn header(&self) -> Option<&[u8]> {
        match self {
            Self::Lines { index, .. } => index.header(),
            Self::RecordIo { .. } | Self::Idx(_) => None,
        }
    }

    /// Damage that is known without reading records.
    pub(super) fn damage_at_first_sight(&self) -> Vec<Damage> {
        let (file, index) = match self {
            Self::RecordIo { file, index } => (file, index),
            Self::Lines { file, index } => {
                return index
                    .truncated_row()
                    .map(|truncated_row| truncated_row_damage(file, index, truncated_row))
                    .into_iter()
                    .collect();
            }
            Self::Idx(_) => return Vec::new(),
        };
        let damage = |offset, records, flaw: String| {
            let file = file.path().to_owned();
            Damage { file, offset, line: None, records, flaw }
        };
        let chunks = index.chunks().iter().filter_map(|chunk| {
            let flaw = chunk.flaw.as_ref()?;
            Some(damage(chunk.offset, Some(chunk.records()), flaw.to_string()))
        });
        let lost = index.lost().map(|lost| damage(lost.offset, None, lost.flaw.to_string()));
        chunks.chain(lost).collect()
    }

    /// The offset of a record in a file of lines.
    pub(super) fn offset_of(&self, record: u64) -> Result<Option<u64>, DataError> {
        let Self::Lines { file, index } = self else { return Ok(None) };
        let offset = index.offset_of(&file.again()?, record).map_err(|error| of_lines(file.path(), error))?;
        Ok(Some(offset))
    }

    /// Line feeds in a part of a file of lines.
    pub(super) fn line_feeds(&self, part: Range<u64>) -> Result<u64, DataError> {
        let Self::Lines { file, .. } = self else { return Ok(0) };
        line_feeds(&file.again()?, part).map_err(|error| of_lines(file.path(), error))
    }

    /// Passes a range of records to `sink`, each with its number in the file.
    pub(super) fn read(
        &self,
        memory: (&ChunkCache, FileKey),
        range: Range<u64>,
        sink: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Failure> {
        match self {
            Self::RecordIo { file, index } => read_chunks(file, index, memory, range, sink),
            Self::Lines { file, index } => {
                let content = file.again()?;
                let truncated_row = index.truncated_row().filter(|_| range.end == index.records());
                let whole = if truncated_row.is_some() { range.start..range.end - 1 } else { range };
                let (from, until) = (whole.end, index.records());
                let read = index.read(&content, whole, sink).map_err(|error| of_lines(file.path(), error));
                read.map_err(|error| unless_changed(file, &content, error))?;
                match truncated_row {
                    Some(truncated_row) => {
                        Err(Failure::Damaged { from, until, damage: truncated_row_damage(file, index, truncated_row) })
                    }
                    None => Ok(()),
                }
            }
            Self::Idx(pair) => Ok(pair.read(range, sink)?),
        }
    }
}

fn read_chunks(
    file: &DataFile,
    index: &Index,
    memory: (&ChunkCache, FileKey),
    range: Range<u64>,
    sink: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), Failure> {
    let content = file.again()?;
    let Err(error) = index.read(&content, memory, range, sink) else { return Ok(()) };
    match error.cause {
        Unread::Io(source) => {
            Err(unless_changed(file, &content, DataError::Io { path: file.path().to_owned(), source }).into())
        }
        Unread::Flaw(flaw) => {
            file.check(&content)?;
            let (from, until, records) = (error.from, error.lost.end, Some(error.lost));
            let (file, flaw) = (file.path().to_owned(), flaw.to_string());
            let damage = Damage { file, offset: error.offset, line: None, records, flaw };
            Err(Failure::Damaged { from, until, damage })
        }
    }
}

/// A file that changes while it is read can fail in any way. Then the change is the error to report.
fn unless_changed(file: &DataFile, content: &File, error: DataError) -> DataError {
    file.check(content).err().unwrap_or(error)
}

fn truncated_row_damage(
    file: &DataFile,
    index: &LineIndex,
    TruncatedRow { offset, line, fields, columns }: TruncatedRow,
) -> Damage {
    let records = Some(index.records() - 1..index.records());
    let flaw = format!("{}; was the file truncated?", csv::uneven("the row", fields, columns));
    Damage { file: file.path().to_owned(), offset, line: Some(line), records, flaw }
}

fn of_lines(path: &Path, error: LinesError) -> DataError {
    match error {
        LinesError::Io(source) => DataError::Io { path: path.to_owned(), source },
        LinesError::Line { offset, why } => DataError::Lines { path: path.to_owned(), offset, why },
    }
}
