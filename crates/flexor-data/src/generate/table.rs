//! Tables of which the true probability of every label is known, as CSV or as RecordIO.

use std::io::{self, Write};

use super::auc::Auc;
use super::{GenerateError, Part, Plan, Truth, TruthOfFile};
use crate::csv;
use crate::example::ExampleWriter;
use crate::output::Output;
use crate::recordio::{WriteError, Writer, WriterOptions};

/// How often progress is told, in records.
const TOLD_EVERY: u64 = 8192;

/// A table.
pub trait Table {
    /// What has made it.
    fn name(&self) -> &'static str;

    /// From which seed.
    fn seed(&self) -> u64;

    /// Its columns. The first one is the label, 0 or 1.
    fn columns(&self) -> &[Column];

    /// Writes a record's values behind those in `row`. Returns the label, and how probable it is that it is 1.
    fn row(&self, number: u64, row: &mut Vec<Value>) -> (bool, f64);
}

/// A column.
pub type Column = String;

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number with three digits behind the point, in thousandths.
    Thousandths(i32),
    /// A word.
    Word(&'static str),
}

/// In which format a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// A line for each record, after one with the names of the columns.
    Csv,
    /// A `tf.train.Example` for each record, with a feature for each column.
    RecordIo(WriterOptions),
}

/// Writes a table and its truth. `told` hears how many records are done.
///
/// # Errors
///
/// A file is there already, or cannot be written. Then none is changed, but for those that were whole before.
pub fn write(
    table: &dyn Table,
    plan: &Plan,
    format: TableFormat,
    told: &mut dyn FnMut(u64),
) -> Result<Truth, GenerateError> {
    let parts = plan.parts();
    // Everything is begun before anything is put in place: a file that is in the way is known at once.
    let outputs: Vec<Output> = parts.iter().map(|part| plan.create(&part.path)).collect::<Result<_, _>>()?;
    drop(plan.create(&plan.truth())?);
    let mut whole = Vec::new();
    let mut files = Vec::new();
    for (part, output) in parts.iter().zip(outputs) {
        let failed = |source: WriteError| GenerateError::Write { path: part.path.clone(), source };
        let (output, auc) = match format {
            TableFormat::Csv => write_csv(table, part, output, told).map_err(|error| failed(error.into())),
            TableFormat::RecordIo(options) => write_examples(table, part, output, options, told).map_err(failed),
        }?;
        let file = part.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (positives, best_auc) = (Some(auc.positives()), auc.value());
        files.push(TruthOfFile { file, records: part.records, positives, best_auc });
        whole.push(output);
    }
    for output in whole {
        output.commit()?;
    }
    let best_auc = files.last().and_then(|file| file.best_auc);
    let (generator, seed) = (table.name().to_owned(), table.seed());
    let truth = Truth { generator, seed, best_auc, best_accuracy: None, files };
    truth.write(plan)?;
    Ok(truth)
}

fn write_csv(table: &dyn Table, part: &Part, mut out: Output, told: &mut dyn FnMut(u64)) -> io::Result<(Output, Auc)> {
    let names: Vec<&[u8]> = table.columns().iter().map(String::as_bytes).collect();
    out.write_all(&names.join(&b","[..]))?;
    out.write_all(b"\n")?;
    let mut auc = Auc::new();
    let mut line = Vec::new();
    each(table, part, &mut auc, told, &mut |row| {
        line.clear();
        for value in row {
            match value {
                Value::Integer(number) => write!(line, "{number}")?,
                Value::Thousandths(number) => write_thousandths(&mut line, *number)?,
                Value::Word(word) => line.extend_from_slice(&csv::field(word.as_bytes())),
            }
            line.push(b',');
        }
        if let Some(last) = line.last_mut() {
            *last = b'\n';
        }
        out.write_all(&line)
    })?;
    Ok((out, auc))
}

fn write_examples(
    table: &dyn Table,
    part: &Part,
    out: Output,
    options: WriterOptions,
    told: &mut dyn FnMut(u64),
) -> Result<(Output, Auc), WriteError> {
    let mut writer = Writer::new(out, options);
    let mut auc = Auc::new();
    let mut example = ExampleWriter::new();
    each(table, part, &mut auc, told, &mut |row| {
        for (name, value) in table.columns().iter().zip(row) {
            match value {
                Value::Integer(number) => example.integers(name, &[*number]),
                Value::Thousandths(number) => example.floats(name, [*number as f32 / 1000.0].into_iter()),
                Value::Word(word) => example.bytes(name, word.as_bytes()),
            };
        }
        writer.write(example.finish())
    })?;
    Ok((writer.finish()?.0, auc))
}

fn each<E>(
    table: &dyn Table,
    part: &Part,
    auc: &mut Auc,
    told: &mut dyn FnMut(u64),
    on: &mut dyn FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let mut row = Vec::with_capacity(table.columns().len());
    for number in part.first..part.first + part.records {
        row.clear();
        let (label, probability) = table.row(number, &mut row);
        auc.add(probability, label);
        on(&row)?;
        if (number + 1).is_multiple_of(TOLD_EVERY) {
            told(number + 1);
        }
    }
    Ok(())
}

fn write_thousandths(line: &mut Vec<u8>, number: i32) -> io::Result<()> {
    let sign = if number < 0 { "-" } else { "" };
    let size = number.unsigned_abs();
    write!(line, "{sign}{}.{:03}", size / 1000, size % 1000)
}
