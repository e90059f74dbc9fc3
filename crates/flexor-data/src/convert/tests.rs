use std::path::Path;

use super::*;
use crate::dataset::{Content, Options};
use crate::example::{self, Values};
use crate::recordio::Compressor;

fn convert_to(
    from: &Path,
    to: &Path,
    target: Target,
    records_per_file: Option<u64>,
) -> Result<Converted, ConvertError> {
    let dataset = Dataset::open(&[from.to_owned()], &Options::default())?;
    let existing = Existing::Keep;
    let conversion = Conversion { target, to: to.to_owned(), records_per_file, existing };
    convert(&dataset, &conversion, &mut |_| {})
}

const RECORD_IO: Target = Target::RecordIo(WriterOptions { compressor: Compressor::Snappy, chunk_limit: 1 << 20 });

#[test]
fn a_table_comes_back_from_recordio_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let table = "label,x,city\n1,0.5,Hamburg\n0,-3,\"Frankfurt, Main\"\n1,7.25,\n";
    std::fs::write(path("a.csv"), table).unwrap();
    let converted = convert_to(&path("a.csv"), &path("b.recordio"), RECORD_IO, None).unwrap();
    assert_eq!((converted.records, converted.damaged, converted.files.len()), (3, 0, 1));
    convert_to(&path("b.recordio"), &path("c.csv"), Target::Csv, None).unwrap();
    assert_eq!(std::fs::read_to_string(path("c.csv")).unwrap(), table);
}

#[test]
fn lines_come_back_from_several_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.txt"), "one\n\ntwo\nthree\nfour\n").unwrap();
    let converted = convert_to(&path("a.txt"), &path("shards"), RECORD_IO, Some(2)).unwrap();
    let names: Vec<_> = converted.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["data-00000", "data-00001", "data-00002"]);
    convert_to(&path("shards"), &path("b.txt"), Target::Text, None).unwrap();
    assert_eq!(std::fs::read_to_string(path("b.txt")).unwrap(), "one\n\ntwo\nthree\nfour\n");
}

#[test]
fn an_unsupported_conversion_is_refused_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), "x,y\n1,2\n1\n").unwrap();
    std::fs::write(path("a.txt"), "no example\n").unwrap();
    let refused =
        |from: &str, target: Target| convert_to(&path(from), &path("out"), target, None).unwrap_err().to_string();
    assert!(refused("a.csv", Target::Text).starts_with("CSV cannot be converted to text"));
    let uneven = "a.csv: record 1, at byte 8, line 3: the row has 1 field, and the table 2 columns";
    assert!(refused("a.csv", RECORD_IO).ends_with(uneven), "{}", refused("a.csv", RECORD_IO));
    assert!(!path("out").exists());
    convert_to(&path("a.txt"), &path("a.recordio"), RECORD_IO, None).unwrap();
    assert!(refused("a.recordio", Target::Csv).contains("not a tf.train.Example"));
    let existing = convert_to(&path("a.txt"), &path("a.recordio"), RECORD_IO, None).unwrap_err();
    assert!(existing.to_string().contains("exists already"));
}

#[test]
fn an_unfit_row_is_skipped_by_choice_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), "x,y\n1,2\n# no row\n5,6\n7,8,9\n10,11\n").unwrap();
    std::fs::write(path("b.csv"), "x,y\n1\n3\n").unwrap();
    let converted = |from: &str, on_damage| {
        let dataset = Dataset::open(&[path(from)], &Options { on_damage, ..Options::default() }).unwrap();
        let to = path(from).with_extension("recordio");
        let conversion = Conversion { target: RECORD_IO, to, records_per_file: None, existing: Existing::Keep };
        convert(&dataset, &conversion, &mut |_| {})
    };
    let why = "the row has 1 field, and the table 2 columns";
    assert!(converted("a.csv", crate::OnDamage::Fail).unwrap_err().to_string().contains(why));
    assert!(!path("a.recordio").exists());
    let done = converted("a.csv", crate::OnDamage::Skip).unwrap();
    assert_eq!((done.records, done.damaged, done.unfit.len()), (3, 2, 2));
    assert!(done.unfit[0].0.to_string().contains("a.csv: record 1, ") && done.unfit[0].1.contains(why), "{done:?}");
    // The skipped rows leave no trace, and do not affect the columns' types.
    convert_to(&path("a.recordio"), &path("back.csv"), Target::Csv, None).unwrap();
    assert_eq!(std::fs::read_to_string(path("back.csv")).unwrap(), "x,y\n1,2\n5,6\n10,11\n");
    let written = Dataset::open(&[path("a.recordio")], &Options::default()).unwrap();
    let are_integers =
        |bytes: &[u8]| example::read(bytes).unwrap().iter().all(|(_, one)| matches!(one, Values::Integers(_)));
    written
        .read(0..3, &mut |record| assert!(matches!(record.content, Content::Whole(bytes) if are_integers(bytes))))
        .unwrap();
    assert!(converted("b.csv", crate::OnDamage::Skip).unwrap_err().to_string().contains(why));
    assert!(!path("b.recordio").exists(), "no record is left");
}

#[test]
fn where_all_records_are_damaged_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.csv"), "x,y\n1,2\n3,4\n").unwrap();
    convert_to(&path("a.csv"), &path("a.recordio"), RECORD_IO, None).unwrap();
    let mut bytes = std::fs::read(path("a.recordio")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(path("a.recordio"), bytes).unwrap();
    let options = Options { on_damage: crate::OnDamage::Skip, ..Options::default() };
    let dataset = Dataset::open(&[path("a.recordio")], &options).unwrap();
    for (target, to) in [(Target::Csv, "b.csv"), (RECORD_IO, "b.recordio")] {
        let conversion = Conversion { target, to: path(to), records_per_file: None, existing: Existing::Keep };
        let refused = convert(&dataset, &conversion, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.starts_with("none of the records can be read: "), "{refused}");
        assert!(refused.contains("a.recordio: damaged at byte 0, records 0 to 1: checksum mismatch"), "{refused}");
        assert!(!path(to).exists());
    }
}
