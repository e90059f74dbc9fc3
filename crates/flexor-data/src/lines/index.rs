//! How many records a file of lines has, and where some of them begin.

use std::ops::{ControlFlow, Range};

use super::walk::{Lines, LinesError, walk};
use crate::csv;
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
    cut: Option<Cut>,
}

/// The last row of a table that has neither an end nor all of its fields: the file was cut there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where the row begins.
    pub(crate) offset: u64,
    /// With which line, from 1.
    pub(crate) line: u64,
    /// How many fields it has.
    pub(crate) fields: usize,
    /// How many the others have: the line with their names, or the first row.
    pub(crate) columns: usize,
}

impl LineIndex {
    /// Goes through a file once.
    pub(crate) fn of(source: &dyn ReadAt, lines: Lines, header: CsvHeader) -> Result<Self, LinesError> {
        let end = source.size()?;
        let mut index = Self { lines, places: Vec::new(), records: 0, end, header: None, cut: None };
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
        index.cut = index.find_cut(source)?;
        Ok(index)
    }

    fn find_cut(&self, source: &dyn ReadAt) -> Result<Option<Cut>, LinesError> {
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
        let offset = self.place(source, self.records - 1)?;
        let line = 1 + line_feeds(source, 0..offset)?;
        Ok(Some(Cut { offset, line, fields, columns }))
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The last record, where it was cut.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
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

/// How many lines end in a part of a file.
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

/// Where the first line begins.
fn start(source: &dyn ReadAt, end: u64) -> Result<u64, LinesError> {
    let mut first = [0; BYTE_ORDER_MARK.len()];
    if end < first.len() as u64 {
        return Ok(0);
    }
    source.read_exact_at(&mut first, 0)?;
    Ok(if first == BYTE_ORDER_MARK { first.len() as u64 } else { 0 })
}
