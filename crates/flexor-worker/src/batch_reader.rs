//! Reads records of a dataset into a batch.

use std::ops::Range;

use flexor_data::{Content, DataError, Dataset, OnDamage, RecordLocation};
use thiserror::Error;

use crate::Batch;
use crate::features::{BadRecord, Features, Problem};

/// Why records cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(
        "there are no records in {0} to train on; look at the files with `flexor data inspect`, and \
         give data that has records"
    )]
    NoRecords(String),
    /// A record cannot be parsed.
    #[error("{location}: {problem}")]
    Record { location: Box<RecordLocation>, problem: Problem },
    /// Probably no record can be parsed: skipping them would skip everything.
    #[error("none of the sampled records can be parsed; {location}: {problem}")]
    AllRecords {
        /// The first of them.
        location: Box<RecordLocation>,
        problem: Problem,
    },
}

/// How many records, spread over the data, are sampled to find one that can be parsed.
const SAMPLES: u64 = 64;

/// Reads records into a batch, and returns the numbers of the skipped ones, in order. Records in damaged parts of a
/// file and records that cannot be parsed are skipped, where that is not an error. If no record can be parsed, the
/// schema is wrong and not the data.
pub(crate) fn read(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<Vec<u64>, ReadError> {
    batch.clear();
    let (skipped_records, bad) = add(dataset, features, range, batch)?;
    let count = bad.len();
    match bad.into_iter().next() {
        Some(BadRecord { record, problem })
            if !features.has_parsed() && !is_any_parseable(dataset, features, batch)? =>
        {
            return Err(ReadError::AllRecords { location: Box::new(dataset.location_with_line(record)?), problem });
        }
        Some(BadRecord { record, problem }) if dataset.on_damage() == OnDamage::Fail => {
            return Err(ReadError::Record { location: Box::new(dataset.location_with_line(record)?), problem });
        }
        // Finding the line number reads the file up to there, and this may be logged for every batch.
        Some(BadRecord { record, problem }) => {
            let first = format!("{}: {problem}", dataset.location(record)?);
            tracing::warn!(records = count, %first, "records skipped");
        }
        None => {}
    }
    Ok(skipped_records)
}

/// Adds records to a batch. Returns the numbers of the skipped ones, and the problems of those that cannot be parsed.
fn add(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<(Vec<u64>, Vec<BadRecord>), DataError> {
    let (mut skipped_records, mut bad): (Vec<u64>, Vec<BadRecord>) = (Vec::new(), Vec::new());
    dataset.read(range, &mut |record| {
        let added = match record.content {
            Content::Whole(bytes) => features.add(record.number, bytes, batch).map_err(|wrong| bad.push(wrong)),
            Content::Damaged => Err(()),
        };
        if added.is_err() {
            skipped_records.push(record.number);
        }
    })?;
    Ok((skipped_records, bad))
}

/// Whether any of some records, spread over the data, can be parsed. A stretch of bad records may be longer than a
/// batch, and may be the first that a worker reads. The batch is cleared; it held no record before.
fn is_any_parseable(dataset: &Dataset, features: &mut Features, batch: &mut Batch) -> Result<bool, DataError> {
    let all = dataset.len();
    for location in 0..SAMPLES.min(all) {
        let record = (u128::from(all) * u128::from(location) / u128::from(SAMPLES.min(all))) as u64;
        add(dataset, features, record..record + 1, batch)?;
    }
    batch.clear();
    Ok(features.has_parsed())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flexor_data::Options;

    use super::*;
    use crate::features::Schema;

    /// A hundred records, of which `bad` cannot be parsed.
    fn table(bad: Range<usize>, schema: &str, on_damage: OnDamage) -> (tempfile::TempDir, Dataset, Features) {
        let folder = tempfile::tempdir().unwrap();
        let line = |number: usize| if bad.contains(&number) { "what,is,this\n" } else { "1,0.5,a\n" };
        let path = folder.path().join("table.csv");
        fs::write(&path, format!("label,number,field\n{}", (0..100).map(line).collect::<String>())).unwrap();
        let dataset = Dataset::open(&[path], &Options { on_damage, ..Options::default() }).unwrap();
        let features = Features::new(&schema.parse::<Schema>().unwrap());
        (folder, dataset, features)
    }

    const CLICKS: &str = "clicks:numbers=1,fields=1";

    #[test]
    fn a_batch_of_bad_records_only_is_skipped_even_if_it_is_the_first() {
        let (_folder, dataset, mut features) = table(0..90, CLICKS, OnDamage::Skip);
        let mut batch = Batch::new(features.inputs());
        for (range, skipped_records) in [(0..10, 10), (10..20, 10), (85..95, 5), (90..100, 0), (20..21, 1)] {
            let good = range.end - range.start - skipped_records;
            let numbers: Vec<u64> = range.clone().filter(|number| *number < 90).collect();
            assert_eq!(numbers.len() as u64, skipped_records, "{range:?}");
            assert_eq!(read(&dataset, &mut features, range.clone(), &mut batch).unwrap(), numbers, "{range:?}");
            assert_eq!(batch.len() as u64, good, "{range:?}");
        }
    }

    #[test]
    fn a_schema_that_fits_no_record_is_refused_at_once() {
        for on_damage in [OnDamage::Skip, OnDamage::Fail] {
            let (_folder, dataset, mut features) = table(0..0, "clicks:numbers=2,fields=7", on_damage);
            let mut batch = Batch::new(features.inputs());
            let refused = read(&dataset, &mut features, 40..50, &mut batch).unwrap_err();
            assert!(matches!(refused, ReadError::AllRecords { .. }), "{refused}");
            assert!(
                refused.to_string().contains("table.csv: record 40, at byte 339, line 42: column n1 is \"a\""),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_bad_record_is_an_error_where_none_may_be_skipped() {
        let (_folder, dataset, mut features) = table(15..16, CLICKS, OnDamage::Fail);
        let mut batch = Batch::new(features.inputs());
        assert_eq!(read(&dataset, &mut features, 0..10, &mut batch).unwrap(), [0; 0]);
        let refused = read(&dataset, &mut features, 10..20, &mut batch).unwrap_err();
        let named = format!("{}: record 15, at byte 139, line 17: ", dataset.files().next().unwrap().path.display());
        assert!(refused.to_string().starts_with(&named), "{refused}");
    }
}
