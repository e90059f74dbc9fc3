//! How many records a file of lines has, and where some of them begin.

use std::ops::{ControlFlow, Range};

use super::walk::{Lines, LinesError, walk};
use crate::format::CsvHeader;
use crate::read_at::ReadAt;

/// How many records share a place that is remembered.
const STRIDE: u64 = 128;
/// How much is read at once while everything is gone through, and while a range is.
const WHOLE: usize = 1 << 20;
const RANGE: usize = 1 << 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An index of the lines of a file.
#[derive(Debug)]
pub(crate) struct LineIndex {
    lines: Lines,
    /// Where the records 0, 128, 256 … begin.
    places: Vec<u64>,
    records: u64,
    end: u64,
    header: Option<Vec<u8>>,
}

impl LineIndex {
    /// Goes through a file once.
    pub(crate) fn of(source: &dyn ReadAt, lines: Lines, header: CsvHeader) -> Result<Self, LinesError> {
        let end = source.size()?;
        let mut index = Self { lines, places: Vec::new(), records: 0, end, header: None };
        let mut wants_header = lines == Lines::Csv && header == CsvHeader::FirstLine;
        walk(source, lines, (start(source, end)?, end), WHOLE, &mut |offset, line| {
            if std::mem::take(&mut wants_header) {
                index.header = Some(line.to_vec());
                return ControlFlow::Continue(());
            }
            if index.records.is_multiple_of(STRIDE) {
                index.places.push(offset);
            }
            index.records += 1;
            ControlFlow::Continue(())
        })?;
        Ok(index)
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The line with the names of the columns.
    pub(crate) fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    /// Where a record begins.
    pub(crate) fn place(&self, source: &dyn ReadAt, wanted: u64) -> Result<u64, LinesError> {
        let nearest = wanted / STRIDE;
        let (mut record, mut place) = (nearest * STRIDE, self.end);
        let start = self.places.get(nearest as usize).copied().unwrap_or(self.end);
        walk(source, self.lines, (start, self.end), RANGE, &mut |offset, _| {
            place = offset;
            record += 1;
            if record <= wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(place)
    }

    /// Hands on a range of records, each with its number.
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
        let place = self.places.get(nearest as usize).copied().unwrap_or(self.end);
        walk(source, self.lines, (place, self.end), RANGE, &mut |_, line| {
            if record >= range.start {
                sink(record, line);
            }
            record += 1;
            if record < range.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }
}

/// Where the first line begins.
fn start(source: &dyn ReadAt, end: u64) -> Result<u64, LinesError> {
    let mut first = [0; BYTE_ORDER_MARK.len()];
    if end < first.len() as u64 {
        return Ok(0);
    }
    source.read_exact_at(&mut first, 0)?;
    Ok(if first == BYTE_ORDER_MARK { first.len() as u64 } else { 0 })
}
