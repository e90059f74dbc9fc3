//! Converts table rows to examples, and examples to table rows.

use std::fmt::Write as _;

use super::{ConvertError, READ_BATCH};
use crate::csv;
use crate::dataset::{Content, Dataset};
use crate::example::{self, ExampleWriter, Values};
use crate::record_location::RecordLocation;

/// The type that all values of a column have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Integer,
    Float,
    Text,
}

impl Kind {
    fn of(value: &[u8]) -> Self {
        let text = str::from_utf8(value).unwrap_or_default();
        if text.parse::<i64>().is_ok() {
            return Self::Integer;
        }
        if text.parse::<f32>().is_ok_and(f32::is_finite) { Self::Float } else { Self::Text }
    }
}

/// Converts table rows to examples.
pub(super) struct LineToExample {
    columns: Vec<(String, Kind)>,
    writer: ExampleWriter,
}

impl LineToExample {
    /// Reads the table once to find the type of each column: integers, floats, or text.
    pub(super) fn of(dataset: &Dataset) -> Result<Self, ConvertError> {
        let names = dataset.columns().ok_or(ConvertError::NoColumns)?;
        let mut columns: Vec<(String, Kind)> = names.iter().map(|name| (name.clone(), Kind::Integer)).collect();
        let mut next = 0;
        while next < dataset.len() {
            let end = dataset.len().min(next + READ_BATCH);
            dataset.read(next..end, &mut |record| {
                let Content::Whole(line) = record.content else { return };
                // An uneven row says nothing about the columns.
                if check_field_count(line, columns.len()).is_err() {
                    return;
                }
                for ((_, kind), value) in columns.iter_mut().zip(csv::fields(line)) {
                    if *kind != Kind::Text {
                        *kind = (*kind).max(Kind::of(&value));
                    }
                }
            })?;
            next = end;
        }
        Ok(Self { columns, writer: ExampleWriter::new() })
    }

    pub(super) fn convert(&mut self, line: &[u8]) -> Result<&[u8], String> {
        check_field_count(line, self.columns.len())?;
        for ((name, kind), value) in self.columns.iter().zip(csv::fields(line)) {
            // All values parse: the column was read before.
            let text = str::from_utf8(&value).unwrap_or_default();
            match kind {
                Kind::Integer => self.writer.integers(name, &[text.parse().unwrap_or_default()]),
                Kind::Float => self.writer.floats(name, [text.parse().unwrap_or_default()].into_iter()),
                Kind::Text => self.writer.bytes(name, &value),
            };
        }
        Ok(self.writer.finish())
    }
}

/// Refuses a row without exactly one field per column.
fn check_field_count(line: &[u8], columns: usize) -> Result<(), String> {
    let fields = csv::fields(line).count();
    if fields == columns { Ok(()) } else { Err(csv::uneven("the row", fields, columns)) }
}

/// Converts examples to table rows.
pub(super) struct ExampleToLine {
    columns: Vec<String>,
    line: Vec<u8>,
}

impl ExampleToLine {
    /// Uses the features of the first record as columns.
    pub(super) fn of(dataset: &Dataset) -> Result<Self, ConvertError> {
        let mut first = None;
        let mut next = 0;
        while first.is_none() && next < dataset.len() {
            dataset.read(next..next + 1, &mut |record| {
                if let Content::Whole(bytes) = record.content {
                    let names = example::read(bytes).map(|features| names(&features));
                    let (file, record) = (record.file.to_owned(), record.in_file);
                    let location = RecordLocation { file, record, offset: None, line: None };
                    first = Some(names.map_err(|error| ConvertError::Record { location, why: error.to_string() }));
                }
            })?;
            next += 1;
        }
        Ok(Self { columns: first.transpose()?.unwrap_or_default(), line: Vec::new() })
    }

    pub(super) fn header(&self) -> Vec<u8> {
        let names: Vec<_> = self.columns.iter().map(|name| csv::field(name.as_bytes())).collect();
        [&names.join(&b","[..])[..], b"\n"].concat()
    }

    pub(super) fn convert(&mut self, record: &[u8]) -> Result<&[u8], String> {
        let features = example::read(record).map_err(|error| error.to_string())?;
        if features.len() != self.columns.len() {
            return Err(format!("it has {} features, the first record has {}", features.len(), self.columns.len()));
        }
        self.line.clear();
        for (at, name) in self.columns.iter().enumerate() {
            // Most writers keep the order, but the format does not promise it.
            let is_it = |feature: &&(&str, Values<'_>)| feature.0 == name;
            let found = features.get(at).filter(is_it).or_else(|| features.iter().find(is_it));
            let (_, values) = found.ok_or_else(|| format!("it has no feature {name}, which the first record has"))?;
            let mut number = String::new();
            let value = match values {
                Values::Bytes(texts) if texts.len() == 1 => csv::field(texts[0]),
                Values::Floats(floats) if floats.len() == 1 => {
                    let _ = write!(number, "{}", floats[0]);
                    number.as_bytes().into()
                }
                Values::Integers(integers) if integers.len() == 1 => {
                    let _ = write!(number, "{}", integers[0]);
                    number.as_bytes().into()
                }
                Values::Bytes(_) | Values::Floats(_) | Values::Integers(_) | Values::Nothing => {
                    return Err(format!("feature {name} does not have exactly one value, which a table field needs"));
                }
            };
            if at > 0 {
                self.line.push(b',');
            }
            self.line.extend_from_slice(&value);
        }
        Ok(&self.line)
    }
}

fn names(features: &[(&str, Values<'_>)]) -> Vec<String> {
    features.iter().map(|(name, _)| (*name).to_owned()).collect()
}
