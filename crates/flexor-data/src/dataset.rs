//! One numbered sequence of records over any number of files.
//!
//! Files are concatenated: named files in the given order, files of a folder sorted by name. Record 0 is the first
//! record of the first file. Damage never changes numbers: an unreadable record is passed on as [`Content::Damaged`].
//! Reading takes `&self`, and many threads may read.

mod file_list;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::csv;
use crate::damage::{Damage, OnDamage};
use crate::error::DataError;
use crate::format::{CsvHeader, Format};
use crate::record_location::RecordLocation;
use crate::recordio::{Chunk, ChunkCache, FileKey};
use source::{Failure, Source};

/// Records per read in the search for an undamaged one.
const READ_BATCH: u64 = 1024;

/// Options for reading a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `None`: detected.
    pub format: Option<Format>,
    pub csv_header: CsvHeader,
    pub on_damage: OnDamage,
    /// The size of the chunk cache, in bytes.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        let (csv_header, on_damage) = (CsvHeader::default(), OnDamage::default());
        Self { format: None, csv_header, on_damage, memory: 64 << 20 }
    }
}

/// A record, or the position of a damaged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number in the dataset.
    pub number: u64,
    pub file: &'a Path,
    /// The number in the file.
    pub in_file: u64,
    pub content: Content<'a>,
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    Whole(&'a [u8]),
    /// The record is in a damaged part of its file.
    Damaged,
}

/// Counts of a read range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Intact records.
    pub records: u64,
    /// Damaged records.
    pub damaged: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct FileInfo<'a> {
    pub path: &'a Path,
    pub bytes: u64,
    /// The dataset's number of its first record.
    pub first: u64,
    pub records: u64,
    /// Only for RecordIO.
    pub chunks: Option<&'a [Chunk]>,
}

/// A numbered sequence of records in files.
#[derive(Debug)]
pub struct Dataset {
    format: Format,
    on_damage: OnDamage,
    columns: Option<Vec<String>>,
    files: Vec<DatasetFile>,
    records: u64,
    chunks: ChunkCache,
    /// The damage found so far, by file and offset.
    damage: Mutex<BTreeMap<(usize, u64), Damage>>,
}

#[derive(Debug)]
struct DatasetFile {
    source: Source,
    first: u64,
}

impl Dataset {
    /// Opens files, and the files of folders.
    ///
    /// # Errors
    ///
    /// A file cannot be read, the files do not belong together, or damage is visible at once and not to be skipped.
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self, DataError> {
        let (format, paths) = file_list::files(paths, options.format)?;
        let mut dataset = Self {
            format,
            on_damage: options.on_damage,
            columns: None,
            files: Vec::new(),
            records: 0,
            chunks: ChunkCache::new(options.memory),
            damage: Mutex::default(),
        };
        for path in &paths {
            dataset.add(path, options.csv_header)?;
        }
        Ok(dataset)
    }

    /// All records, including damaged ones.
    pub fn len(&self) -> u64 {
        self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The column names of a table with a header.
    pub fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    pub fn files(&self) -> impl Iterator<Item = FileInfo<'_>> {
        self.files.iter().map(|member| FileInfo {
            path: member.source.path(),
            bytes: member.source.bytes(),
            first: member.first,
            records: member.source.records(),
            chunks: member.source.chunks(),
        })
    }

    pub fn on_damage(&self) -> OnDamage {
        self.on_damage
    }

    /// The damage found so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Passes a range of records to `sink`, in order.
    ///
    /// # Errors
    ///
    /// The range exceeds the dataset, a file cannot be read or has changed, or records are damaged and not to be
    /// skipped. Records passed on before stay valid.
    pub fn read(&self, range: Range<u64>, sink: &mut dyn FnMut(Record<'_>)) -> Result<Progress, DataError> {
        if range.end > self.records || range.start > range.end {
            return Err(DataError::PastTheEnd { range, records: self.records });
        }
        let mut progress = Progress::default();
        let mut next = range.start;
        let mut at = self.files.partition_point(|member| member.first + member.source.records() <= next);
        while next < range.end {
            let member = &self.files[at];
            let end = range.end.min(member.first + member.source.records());
            self.read_file(at, next - member.first..end - member.first, &mut progress, sink)?;
            next = end;
            at += 1;
        }
        Ok(progress)
    }

    /// The first intact record; `None` without records.
    ///
    /// # Errors
    ///
    /// A file cannot be read, the first record is damaged and not to be skipped, or all records are damaged.
    pub fn first(&self) -> Result<Option<Vec<u8>>, DataError> {
        let mut first = None;
        let mut next = 0;
        while first.is_none() && next < self.records {
            // Usually it is record 0.
            let end = if next == 0 { 1 } else { self.records.min(next + READ_BATCH) };
            self.read(next..end, &mut |record| {
                if let (None, Content::Whole(bytes)) = (&first, record.content) {
                    first = Some(bytes.to_vec());
                }
            })?;
            next = end;
        }
        match (first, self.damage().into_iter().next()) {
            (None, Some(damage)) => Err(DataError::NothingLeft(damage)),
            (first, _) => Ok(first),
        }
    }

    /// The location of a record, without its line.
    ///
    /// # Errors
    ///
    /// The record does not exist, or its file cannot be read.
    pub fn location(&self, number: u64) -> Result<RecordLocation, DataError> {
        let member = self.member(number)?;
        let record = number - member.first;
        let offset = member.source.offset_of(record)?;
        Ok(RecordLocation { file: member.source.path().to_owned(), record, offset, line: None })
    }

    /// The location of a record with its line. A file of lines is read up to it.
    ///
    /// # Errors
    ///
    /// The record does not exist, or its file cannot be read.
    pub fn location_with_line(&self, number: u64) -> Result<RecordLocation, DataError> {
        let location = self.location(number)?;
        let line =
            location.offset.map(|offset| self.line_feeds(number, 0..offset)).transpose()?.map(|before| before + 1);
        Ok(RecordLocation { line, ..location })
    }

    /// Line feeds in a part of this record's file.
    pub(crate) fn line_feeds(&self, number: u64, part: Range<u64>) -> Result<u64, DataError> {
        self.member(number)?.source.line_feeds(part)
    }

    fn member(&self, number: u64) -> Result<&DatasetFile, DataError> {
        let at = self.files.partition_point(|member| member.first + member.source.records() <= number);
        let past = DataError::PastTheEnd { range: number..number + 1, records: self.records };
        self.files.get(at).ok_or(past)
    }

    fn read_file(
        &self,
        at: usize,
        range: Range<u64>,
        progress: &mut Progress,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), DataError> {
        let member = &self.files[at];
        let memory = (&self.chunks, FileKey(at as u32));
        let mut next = range.start;
        while next < range.end {
            let read = member.source.read(memory, next..range.end, &mut |in_file, bytes| {
                progress.records += 1;
                sink(member.record(in_file, Content::Whole(bytes)));
            });
            let (from, until, damage) = match read {
                Ok(()) => break,
                Err(Failure::Error(error)) => return Err(error),
                Err(Failure::Damaged { from, until, damage }) => (from, until.min(range.end), damage),
            };
            self.notice(at, damage)?;
            for in_file in from..until {
                progress.damaged += 1;
                sink(member.record(in_file, Content::Damaged));
            }
            next = until;
        }
        Ok(())
    }

    /// Records damage, or fails.
    fn notice(&self, file: usize, damage: Damage) -> Result<(), DataError> {
        match self.on_damage {
            OnDamage::Fail => Err(DataError::Damaged(damage)),
            OnDamage::Skip => {
                let mut noticed = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
                noticed.insert((file, damage.offset), damage);
                Ok(())
            }
        }
    }

    fn add(&mut self, path: &Path, header: CsvHeader) -> Result<(), DataError> {
        let source = Source::open(path, self.format, header)?;
        let at = self.files.len();
        for damage in source.damage_at_first_sight() {
            self.notice(at, damage)?;
        }
        if let Some(header) = source.header() {
            let columns: Vec<String> =
                csv::fields(header).map(|field| String::from_utf8_lossy(&field).trim().to_owned()).collect();
            let known = self.columns.get_or_insert_with(|| columns.clone());
            if *known != columns {
                let first = self.files.first().map_or(path, |member| member.source.path()).to_owned();
                return Err(DataError::Columns { first, other: path.to_owned() });
            }
        }
        let first = self.records;
        self.records += source.records();
        self.files.push(DatasetFile { source, first });
        Ok(())
    }
}

impl DatasetFile {
    fn record<'a>(&'a self, in_file: u64, content: Content<'a>) -> Record<'a> {
        Record { number: self.first + in_file, file: self.source.path(), in_file, content }
    }
}
