//! Writes generated tables as CSV or RecordIO. The true probability of every label is known.

use std::io::{self, Write};

use super::auc::Auc;
use super::{GenerateError, GeneratedFile, GenerationPlan, Truth, TruthOfFile};
use crate::csv;
use crate::example::ExampleWriter;
use crate::output::Output;
use crate::recordio::{WriteError, Writer, WriterOptions};

/// Records between two progress reports.
const PROGRESS_INTERVAL: u64 = 8192;

/// A generated table.
pub trait Table {
    /// The generator's name.
    fn name(&self) -> &'static str;

    /// The generator's seed.
    fn seed(&self) -> u64;

    /// The first column is the label, 0 or 1.
    fn columns(&self) -> &[Column];

    /// Appends a record's values to `row`. Returns the label, and the probability that it is 1.
    fn row(&self, number: u64, row: &mut Vec<Value>) -> (bool, f64);
}

pub type Column = String;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// A number with three decimals, in thousandths.
    Thousandths(i32),
    Word(&'static str),
}

/// The output format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// One line per record, after a header.
    Csv,
    /// A `tf.train.Example` for each record, with a feature for each column.
    RecordIo(WriterOptions),
}

/// Writes a table and its truth. `on_progress` receives the number of written records.
///
/// # Errors
///
/// A file exists already or cannot be written. Then nothing is changed, except files that were complete before.
pub fn write(
    table: &dyn Table,
    plan: &GenerationPlan,
    format: TableFormat,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Truth, GenerateError> {
    let parts = plan.parts();
    // All files are created before any is renamed, so an existing file is noticed at once.
    let outputs: Vec<Output> = parts.iter().map(|part| plan.create(&part.path)).collect::<Result<_, _>>()?;
    drop(plan.create(&plan.truth())?);
    let mut whole = Vec::new();
    let mut files = Vec::new();
    for (part, output) in parts.iter().zip(outputs) {
        let failed = |source: WriteError| GenerateError::Write { path: part.path.clone(), source };
        let (output, auc) = match format {
            TableFormat::Csv => write_csv(table, part, output, on_progress).map_err(|error| failed(error.into())),
            TableFormat::RecordIo(options) => write_examples(table, part, output, options, on_progress).map_err(failed),
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
    let truth = Truth { generator, seed, best_auc, best_accuracy: None, records_per_file: None, files };
    truth.write(plan)?;
    Ok(truth)
}

fn write_csv(
    table: &dyn Table,
    part: &GeneratedFile,
    mut out: Output,
    on_progress: &mut dyn FnMut(u64),
) -> io::Result<(Output, Auc)> {
    let names: Vec<&[u8]> = table.columns().iter().map(String::as_bytes).collect();
    out.write_all(&names.join(&b","[..]))?;
    out.write_all(b"\n")?;
    let mut auc = Auc::new();
    let mut line = Vec::new();
    for_each_record(table, part, &mut auc, on_progress, &mut |row| {
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
    part: &GeneratedFile,
    out: Output,
    options: WriterOptions,
    on_progress: &mut dyn FnMut(u64),
) -> Result<(Output, Auc), WriteError> {
    let mut writer = Writer::new(out, options);
    let mut auc = Auc::new();
    let mut example = ExampleWriter::new();
    for_each_record(table, part, &mut auc, on_progress, &mut |row| {
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

fn for_each_record<E>(
    table: &dyn Table,
    part: &GeneratedFile,
    auc: &mut Auc,
    on_progress: &mut dyn FnMut(u64),
    on: &mut dyn FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let mut row = Vec::with_capacity(table.columns().len());
    for number in part.first..part.first + part.records {
        row.clear();
        let (label, probability) = table.row(number, &mut row);
        auc.add(probability, label);
        on(&row)?;
        if (number + 1).is_multiple_of(PROGRESS_INTERVAL) {
            on_progress(number + 1);
        }
    }
    Ok(())
}

fn write_thousandths(line: &mut Vec<u8>, number: i32) -> io::Result<()> {
    let sign = if number < 0 { "-" } else { "" };
    let size = number.unsigned_abs();
    write!(line, "{sign}{}.{:03}", size / 1000, size % 1000)
}
