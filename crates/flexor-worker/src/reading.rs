//! Records of a dataset as a batch.

use std::ops::Range;

use flexor_data::{Content, DataError, Dataset, OnDamage, Place};
use thiserror::Error;

use crate::Batch;
use crate::features::{BadRecord, Features, Problem};

/// Records that cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// There is nothing to read.
    #[error(
        "there are no records in {0}, and nothing can be learnt from it; see what is there with `flexor data inspect`, and \
         give data that has some"
    )]
    NoRecords(String),
    /// A record means nothing.
    #[error("{place}: {problem}")]
    Record {
        /// Where it stands.
        place: Box<Place>,
        /// What is wrong with it.
        problem: Problem,
    },
    /// All records mean nothing, as it seems: to leave them out would leave none.
    #[error("none of the records means anything that were looked at, from all over the data; {place}: {problem}")]
    AllRecords {
        /// Where the first of them stands.
        place: Box<Place>,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// From how many places of the data a record is looked at, to know whether any means something.
const PLACES: u64 = 64;

/// Reads records into a batch. Those that lie in a damaged part of a file, and those that mean nothing, are left out where
/// that is not an error; which they are, in order. Where no record means anything, the schema is wrong and not the data.
pub(crate) fn read(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<Vec<u64>, ReadError> {
    batch.clear();
    let (left_out, bad) = add(dataset, features, range, batch)?;
    let count = bad.len();
    match bad.into_iter().next() {
        Some(BadRecord { record, problem }) if !features.fit() && !is_any_good(dataset, features, batch)? => {
            return Err(ReadError::AllRecords { place: Box::new(dataset.place_with_line(record)?), problem });
        }
        Some(BadRecord { record, problem }) if dataset.on_damage() == OnDamage::Fail => {
            return Err(ReadError::Record { place: Box::new(dataset.place_with_line(record)?), problem });
        }
        // To know the line costs as much as to read the file up to there, and this may be told of every batch.
        Some(BadRecord { record, problem }) => {
            let first = format!("{}: {problem}", dataset.place(record)?);
            tracing::warn!(records = count, %first, "left out");
        }
        None => {}
    }
    Ok(left_out)
}

/// Adds records to a batch; the numbers of those that are not in it, and what is wrong with those that mean nothing.
fn add(
    dataset: &Dataset,
    features: &mut Features,
    range: Range<u64>,
    batch: &mut Batch,
) -> Result<(Vec<u64>, Vec<BadRecord>), DataError> {
    let (mut left_out, mut bad): (Vec<u64>, Vec<BadRecord>) = (Vec::new(), Vec::new());
    dataset.read(range, &mut |record| {
        let added = match record.content {
            Content::Whole(bytes) => features.add(record.number, bytes, batch).map_err(|wrong| bad.push(wrong)),
            Content::Damaged => Err(()),
        };
        if added.is_err() {
            left_out.push(record.number);
        }
    })?;
    Ok((left_out, bad))
}

/// Whether a record means something of some from all over the data: a stretch of bad ones may be longer than a batch, and
/// be the first thing that a worker reads. What is in the batch is gone after it, which is nothing.
fn is_any_good(dataset: &Dataset, features: &mut Features, batch: &mut Batch) -> Result<bool, DataError> {
    let all = dataset.len();
    for place in 0..PLACES.min(all) {
        let record = (u128::from(all) * u128::from(place) / u128::from(PLACES.min(all))) as u64;
        add(dataset, features, record..record + 1, batch)?;
    }
    batch.clear();
    Ok(features.fit())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flexor_data::Options;

    use super::*;
    use crate::features::Schema;

    /// A hundred records, of which these mean nothing, and how they are read.
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
    fn a_batch_of_nothing_but_bad_records_is_left_out_even_if_it_is_the_first() {
        let (_folder, dataset, mut features) = table(0..90, CLICKS, OnDamage::Skip);
        let mut batch = Batch::new(features.inputs());
        for (range, left_out) in [(0..10, 10), (10..20, 10), (85..95, 5), (90..100, 0), (20..21, 1)] {
            let good = range.end - range.start - left_out;
            let numbers: Vec<u64> = range.clone().filter(|number| *number < 90).collect();
            assert_eq!(numbers.len() as u64, left_out, "{range:?}");
            assert_eq!(read(&dataset, &mut features, range.clone(), &mut batch).unwrap(), numbers, "{range:?}");
            assert_eq!(batch.len() as u64, good, "{range:?}");
        }
    }

    #[test]
    fn a_schema_by_which_no_record_means_anything_is_refused_at_once() {
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
    fn a_bad_record_is_an_error_where_none_may_be_left_out() {
        let (_folder, dataset, mut features) = table(15..16, CLICKS, OnDamage::Fail);
        let mut batch = Batch::new(features.inputs());
        assert_eq!(read(&dataset, &mut features, 0..10, &mut batch).unwrap(), [0; 0]);
        let refused = read(&dataset, &mut features, 10..20, &mut batch).unwrap_err();
        let named = format!("{}: record 15, at byte 139, line 17: ", dataset.files().next().unwrap().path.display());
        assert!(refused.to_string().starts_with(&named), "{refused}");
    }
}
