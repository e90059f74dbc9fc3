//! A sparse index of a file of lines.

use std::ops::{ControlFlow, Range};

use super::walk::{Lines, LinesError, walk};
use crate::csv;
use crate::format::CsvHeader;
use crate::read_at::ReadAt;

/// Records per indexed offset.
const STRIDE: u64 = 128;
/// Bytes per read, for the whole file and for a range.
const WHOLE: usize = 1 << 20;
const RANGE: usize = 1 << 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The indexed offsets and the number of records.
#[derive(Debug)]
pub(crate) struct LineIndex {
    lines: Lines,
    /// The offsets of the records 0, 128, 256 and so on.
    offsets: Vec<u64>,
    records: u64,
    end: u64,
    header: Option<Vec<u8>>,
    truncated_row: Option<TruncatedRow>,
}

/// The last row of a truncated table: it has neither a line feed nor all of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TruncatedRow {
    /// The row's first byte.
    pub(crate) offset: u64,
    /// The row's line, from 1.
    pub(crate) line: u64,
    /// The row's fields.
    pub(crate) fields: usize,
    /// The table's columns, by the header or the first row.
    pub(crate) columns: usize,
}

impl LineIndex {
    /// Reads the file once.
    pub(crate) fn of(source: &dyn ReadAt, lines: Lines, header: CsvHeader) -> Result<Self, LinesError> {
        let end = source.size()?;
        let mut index = Self { lines, offsets: Vec::new(), records: 0, end, header: None, truncated_row: None };
        let mut wants_header = lines == Lines::Csv && header == CsvHeader::FirstLine;
        walk(source, lines, (start(source, end)?, end), WHOLE, &mut |offset, line| {
            if std::mem::take(&mut wants_header) {
                index.header = Some(line.to_vec());
                return ControlFlow::Continue(());
            }
            if index.records.is_multiple_of(STRIDE) {
                index.offsets.push(offset);
            }
            index.records += 1;
            ControlFlow::Continue(())
        })?;
        index.truncated_row = index.find_truncated_row(source)?;
        Ok(index)
    }

    fn find_truncated_row(&self, source: &dyn ReadAt) -> Result<Option<TruncatedRow>, LinesError> {
        if self.lines != Lines::Csv || self.records == 0 {
            return Ok(None);
        }
        let mut last = [0; 1];
        source.read_exact_at(&mut last, self.end - 1)?;
        if last == *b"\n" {
            return Ok(None);
        }
        let fields = |record: u64| {
            let mut fields = 0;
            self.read(source, record..record + 1, &mut |_, line| fields = csv::fields(line).count())?;
            Ok::<_, LinesError>(fields)
        };
        let columns = match &self.header {
            Some(header) => csv::fields(header).count(),
            None => fields(0)?,
        };
        let fields = fields(self.records - 1)?;
        if fields >= columns {
            return Ok(None);
        }
        let offset = self.offset_of(source, self.records - 1)?;
        let line = 1 + line_feeds(source, 0..offset)?;
        Ok(Some(TruncatedRow { offset, line, fields, columns }))
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The truncated last record, if there is one.
    pub(crate) fn truncated_row(&self) -> Option<TruncatedRow> {
        self.truncated_row
    }

    /// The header line.
    pub(crate) fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    /// The offset of a record.
    pub(crate) fn offset_of(&self, source: &dyn ReadAt, wanted: u64) -> Result<u64, LinesError> {
        let nearest = wanted / STRIDE;
        let (mut record, mut found) = (nearest * STRIDE, self.end);
        let start = self.offsets.get(nearest as usize).copied().unwrap_or(self.end);
        walk(source, self.lines, (start, self.end), RANGE, &mut |offset, _| {
            found = offset;
            record += 1;
            if record <= wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(found)
    }

    /// Passes a range of records to `sink`, each with its number.
    pub(crate) fn read(
        &self,
        source: &dyn ReadAt,
        range: Range<u64>,
        sink: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), LinesError> {
        if range.is_empty() {
            return Ok(());
        }
        let nearest = range.start / STRIDE;
        let mut record = nearest * STRIDE;
        let start = self.offsets.get(nearest as usize).copied().unwrap_or(self.end);
        walk(source, self.lines, (start, self.end), RANGE, &mut |_, line| {
            if record >= range.start {
                sink(record, line);
            }
            record += 1;
            if record < range.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }
}

/// Line feeds in a part of a file.
pub(crate) fn line_feeds(source: &dyn ReadAt, part: Range<u64>) -> Result<u64, LinesError> {
    let mut piece = vec![0; WHOLE];
    let mut count = 0;
    for offset in part.clone().step_by(WHOLE) {
        let piece = &mut piece[..(part.end - offset).min(WHOLE as u64) as usize];
        source.read_exact_at(piece, offset)?;
        count += memchr::memchr_iter(b'\n', piece).count() as u64;
    }
    Ok(count)
}

/// The offset of the first line.
fn start(source: &dyn ReadAt, end: u64) -> Result<u64, LinesError> {
    let mut first = [0; BYTE_ORDER_MARK.len()];
    if end < first.len() as u64 {
        return Ok(0);
    }
    source.read_exact_at(&mut first, 0)?;
    Ok(if first == BYTE_ORDER_MARK { first.len() as u64 } else { 0 })
}
