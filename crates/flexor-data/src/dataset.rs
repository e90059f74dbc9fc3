//! One numbered sequence of records over any number of files.
//!
//! The files of a dataset are put one behind the other: named files in the order in which they are named, those of a
//! folder sorted by name. Record 0 is the first of the first file. Numbers never change, whatever is damaged: a record
//! that cannot be had is handed on as [`Content::Damaged`]. Reading takes `&self` and may be done by many threads.

mod finding;
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
use crate::place::Place;
use crate::recordio::{Chunk, Chunks, FileKey};
use source::{Failure, Source};

/// How many records are read at once while one is looked for that is not damaged.
const AT_ONCE: u64 = 1024;

/// How a dataset is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The format of the files; none where it is to be found out.
    pub format: Option<Format>,
    /// Whether tables begin with the names of their columns.
    pub csv_header: CsvHeader,
    /// What happens when a part of a file is damaged.
    pub on_damage: OnDamage,
    /// How much is remembered about what was read, in bytes.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        let (csv_header, on_damage) = (CsvHeader::default(), OnDamage::default());
        Self { format: None, csv_header, on_damage, memory: 64 << 20 }
    }
}

/// A record, or the place of one that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the dataset.
    pub number: u64,
    /// The file that it comes from.
    pub file: &'a Path,
    /// Its number in that file.
    pub in_file: u64,
    /// What it is.
    pub content: Content<'a>,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// These bytes.
    Whole(&'a [u8]),
    /// It lies in a damaged part of its file.
    Damaged,
}

/// How a range was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// How many records were had.
    pub records: u64,
    /// How many could not be had.
    pub damaged: u64,
}

/// A file of a dataset.
#[derive(Debug, Clone, Copy)]
pub struct FileInfo<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// How many bytes it has.
    pub bytes: u64,
    /// Which records of the dataset it holds.
    pub first: u64,
    /// How many records it holds.
    pub records: u64,
    /// Its chunks, where it is RecordIO.
    pub chunks: Option<&'a [Chunk]>,
}

/// Records in files.
#[derive(Debug)]
pub struct Dataset {
    format: Format,
    on_damage: OnDamage,
    columns: Option<Vec<String>>,
    files: Vec<Member>,
    records: u64,
    chunks: Chunks,
    /// What has been found to be damaged so far, by file and place.
    damage: Mutex<BTreeMap<(usize, u64), Damage>>,
}

#[derive(Debug)]
struct Member {
    source: Source,
    first: u64,
}

impl Dataset {
    /// Opens files, and the files of folders.
    ///
    /// # Errors
    ///
    /// They cannot be read, do not belong together, or are damaged at first sight where that is not to be skipped.
    pub fn open(paths: &[PathBuf], options: &Options) -> Result<Self, DataError> {
        let (format, paths) = finding::files(paths, options.format)?;
        let mut dataset = Self {
            format,
            on_damage: options.on_damage,
            columns: None,
            files: Vec::new(),
            records: 0,
            chunks: Chunks::new(options.memory),
            damage: Mutex::default(),
        };
        for path in &paths {
            dataset.add(path, options.csv_header)?;
        }
        Ok(dataset)
    }

    /// How many records there are, damaged ones included.
    pub fn len(&self) -> u64 {
        self.records
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The format of the files.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of the columns, where it is a table that has them.
    pub fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    /// The files, in order.
    pub fn files(&self) -> impl Iterator<Item = FileInfo<'_>> {
        self.files.iter().map(|member| FileInfo {
            path: member.source.path(),
            bytes: member.source.bytes(),
            first: member.first,
            records: member.source.records(),
            chunks: member.source.chunks(),
        })
    }

    /// What happens when a part of a file is damaged.
    pub fn on_damage(&self) -> OnDamage {
        self.on_damage
    }

    /// What has been found to be damaged so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Hands on a range of records, in order.
    ///
    /// # Errors
    ///
    /// There are not so many records, a file cannot be read or has changed, or records are damaged and not to be
    /// skipped. What was handed on before stays good.
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

    /// The first record that can be had; none where there are no records.
    ///
    /// # Errors
    ///
    /// A file cannot be read, the first record is damaged and not to be skipped, or all records are damaged.
    pub fn first(&self) -> Result<Option<Vec<u8>>, DataError> {
        let mut first = None;
        let mut next = 0;
        while first.is_none() && next < self.records {
            // Mostly it is record 0.
            let end = if next == 0 { 1 } else { self.records.min(next + AT_ONCE) };
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

    /// Where a record stands, but for its line.
    ///
    /// # Errors
    ///
    /// There is no such record, or its file cannot be read.
    pub fn place(&self, number: u64) -> Result<Place, DataError> {
        let member = self.member(number)?;
        let record = number - member.first;
        let offset = member.source.place(record)?;
        Ok(Place { file: member.source.path().to_owned(), record, offset, line: None })
    }

    /// Where a record stands. Files of lines are gone through up to it.
    ///
    /// # Errors
    ///
    /// There is no such record, or its file cannot be read.
    pub fn place_with_line(&self, number: u64) -> Result<Place, DataError> {
        let place = self.place(number)?;
        let line = place.offset.map(|offset| self.line_feeds(number, 0..offset)).transpose()?.map(|before| before + 1);
        Ok(Place { line, ..place })
    }

    /// How many lines end in a part of the file with this record.
    pub(crate) fn line_feeds(&self, number: u64, part: Range<u64>) -> Result<u64, DataError> {
        self.member(number)?.source.line_feeds(part)
    }

    fn member(&self, number: u64) -> Result<&Member, DataError> {
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

    /// Takes note of damage, or fails.
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
        self.files.push(Member { source, first });
        Ok(())
    }
}

impl Member {
    fn record<'a>(&'a self, in_file: u64, content: Content<'a>) -> Record<'a> {
        Record { number: self.first + in_file, file: self.source.path(), in_file, content }
    }
}
