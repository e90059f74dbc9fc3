//! From a generated file to a trained model: files, records, features, steps.

use std::path::{Path, PathBuf};

use flexor_data::generate::clicks::Clicks;
use flexor_data::generate::digits::{self, DigitsFormat};
use flexor_data::generate::{GenerationPlan, TableFormat, write_table};
use flexor_data::output::Existing;
use flexor_data::recordio::WriterOptions;
use flexor_data::{Content, Dataset, Options};

use super::{Batch, Inputs, learn};
use crate::features::{Features, Schema};

fn plan(out: PathBuf, records: u64, test_records: u64) -> GenerationPlan {
    GenerationPlan { out, records, test_records, records_per_file: None, existing: Existing::Keep }
}

/// All records of a file, in batches.
fn batches(schema: &str, path: &Path) -> (Inputs, Vec<Batch>) {
    let dataset = Dataset::open(&[path.to_owned()], &Options::default()).unwrap();
    let schema: Schema = schema.parse().unwrap();
    let mut features = Features::new(&schema);
    let (mut batches, mut batch) = (Vec::new(), Batch::new(features.inputs()));
    let mut add = |number: u64, bytes: &[u8]| {
        features.add(number, bytes, &mut batch).unwrap();
        if batch.len() == 256 {
            batches.push(batch.clone());
            batch.clear();
        }
    };
    let sink = &mut |record: flexor_data::Record<'_>| match record.content {
        Content::Whole(bytes) => add(record.number, bytes),
        Content::Damaged => panic!("record {} is damaged", record.number),
    };
    dataset.read(0..dataset.len(), sink).unwrap();
    if let Some(columns) = dataset.columns() {
        assert_eq!(Schema::of_columns(columns), Some(schema));
    }
    (features.inputs(), batches)
}

#[test]
fn deepfm_learns_generated_clicks() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path().join("clicks.csv"), 60_000, 20_000);
    let truth = write_table(&Clicks::new(7), &plan, TableFormat::Csv, &mut |_| {}).unwrap();
    let (inputs, train) = batches("clicks", &plan.out);
    let (_, test) = batches("clicks", &folder.path().join("clicks-test.csv"));
    let (auc, best) = (learn("deepfm", inputs, 1, &train, &test).auc().unwrap(), truth.best_auc.unwrap());
    // A tenth of the quickstart's records, so not quite as near.
    assert!(auc > best - 0.02 && auc < best + 0.01, "{auc:.4}, the best is {best:.4}");
}

#[test]
fn clicks_are_the_same_from_csv_and_from_recordio() {
    let folder = tempfile::tempdir().unwrap();
    let as_csv = plan(folder.path().join("clicks.csv"), 600, 0);
    let as_recordio = plan(folder.path().join("clicks.recordio"), 600, 0);
    write_table(&Clicks::new(7), &as_csv, TableFormat::Csv, &mut |_| {}).unwrap();
    let recordio = TableFormat::RecordIo(WriterOptions::default());
    let as_recordio = GenerationPlan { existing: Existing::Replace, ..as_recordio };
    write_table(&Clicks::new(7), &as_recordio, recordio, &mut |_| {}).unwrap();
    let ((_, lines), (_, examples)) = (batches("clicks", &as_csv.out), batches("clicks", &as_recordio.out));
    assert_eq!(lines.len(), examples.len());
    for (line, example) in lines.iter().zip(&examples) {
        assert_eq!((line.labels(), line.keys()), (example.labels(), example.keys()));
        assert!(line.numbers().iter().zip(example.numbers()).all(|(line, example)| (line - example).abs() < 1e-6));
    }
}

#[test]
fn an_mlp_reads_generated_digits() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path().join("digits"), 4096, 1024);
    digits::write(7, &plan, DigitsFormat::Idx, &mut |_| {}).unwrap();
    let (inputs, train) = batches("digits", &folder.path().join("digits-images-idx3-ubyte"));
    let (_, test) = batches("digits", &folder.path().join("digits-test-images-idx3-ubyte"));
    let accuracy = learn("mlp:hidden=64", inputs, 6, &train, &test).accuracy().unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
}
