use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::*;
use crate::recordio::{Compressor, Writer, WriterOptions};

/// A folder with files in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, bytes)| fs::write(folder.path(name), bytes).unwrap());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, on_damage: OnDamage) -> Result<Dataset, DataError> {
        Dataset::open(&[self.0.path().to_owned()], &Options { on_damage, ..Options::default() })
    }
}

/// The read records, with `-` for damaged ones.
fn read(dataset: &Dataset, range: Range<u64>) -> Result<Vec<String>, DataError> {
    let mut records = Vec::new();
    let mut next = range.start;
    dataset.read(range, &mut |record| {
        assert_eq!(record.number, next);
        next += 1;
        records.push(match record.content {
            Content::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Content::Damaged => "-".to_owned(),
        });
    })?;
    Ok(records)
}

/// RecordIO with two records per chunk, numbered from `first`.
fn record_io(first: u32, count: u32) -> Vec<u8> {
    let options = WriterOptions { compressor: Compressor::Snappy, chunk_limit: 11 };
    let mut writer = Writer::new(Vec::new(), options);
    (first..first + count).for_each(|number| writer.write(format!("r{number:04}").as_bytes()).unwrap());
    writer.finish().unwrap().0
}

#[test]
fn the_files_of_a_folder_are_one_sequence_in_the_order_of_their_names() {
    let folder = Folder::with(&[
        ("data-00001", &record_io(5, 3)),
        ("data-00000", &record_io(0, 5)),
        ("data-00002", &[]),
        ("data-00003", &record_io(8, 2)),
        ("about.json", b"{}"),
        (".hidden", b"?"),
    ]);
    let dataset = folder.open(OnDamage::Fail).unwrap();
    assert_eq!((dataset.len(), dataset.format()), (10, Format::RecordIo));
    let expected: Vec<String> = (0..10).map(|number| format!("r{number:04}")).collect();
    assert_eq!(read(&dataset, 0..10).unwrap(), expected);
    assert_eq!(read(&dataset, 4..9).unwrap(), expected[4..9]);
    let mut places = Vec::new();
    dataset.read(4..6, &mut |record| places.push((record.file.to_owned(), record.in_file))).unwrap();
    assert_eq!(places, [(folder.path("data-00000"), 4), (folder.path("data-00001"), 0)]);
    assert!(matches!(read(&dataset, 5..11), Err(DataError::PastTheEnd { records: 10, .. })));
}

#[test]
fn a_damaged_chunk_fails_by_name_or_is_skipped_and_nothing_else_moves() {
    let (first, mut second) = (record_io(0, 4), record_io(4, 5));
    // Five records of five bytes in chunks of two: the second chunk begins behind half of the first file.
    let chunk = first.len() / 2;
    second[chunk + 25] ^= 1;
    let folder = Folder::with(&[("a", &first), ("b", &second)]);

    let strict = folder.open(OnDamage::Fail).unwrap();
    assert_eq!(read(&strict, 0..6).unwrap().len(), 6);
    let error = read(&strict, 0..9).unwrap_err().to_string();
    let named = format!("{}: damaged at byte {chunk}, records 2 to 3: checksum mismatch", folder.path("b").display());
    assert!(error.starts_with(&named), "{error}");

    let lenient = folder.open(OnDamage::Skip).unwrap();
    let expected = ["r0003", "r0004", "r0005", "-", "-", "r0008"];
    assert_eq!(read(&lenient, 3..9).unwrap(), expected);
    assert_eq!(read(&lenient, 7..8).unwrap(), ["-"]);
    let progress = lenient.read(0..9, &mut |_| {}).unwrap();
    assert_eq!(progress, Progress { records: 7, damaged: 2 });
    let damage = lenient.damage();
    assert_eq!(damage.len(), 1);
    assert_eq!((damage[0].offset, damage[0].records.clone()), (chunk as u64, Some(2..4)));
}

#[test]
fn a_truncated_file_is_refused_at_once_or_counted() {
    let whole = record_io(0, 4);
    let folder = Folder::with(&[("a", &whole[..whole.len() - 3]), ("b", &record_io(4, 2))]);
    let error = folder.open(OnDamage::Fail).unwrap_err().to_string();
    assert!(error.contains("records 2 to 3: the file ends 3 bytes before the chunk does"), "{error}");
    let dataset = folder.open(OnDamage::Skip).unwrap();
    assert_eq!(read(&dataset, 0..6).unwrap(), ["r0000", "r0001", "-", "-", "r0004", "r0005"]);
}

#[test]
fn a_file_that_shrinks_or_is_written_to_is_reported() {
    let lines: String = (0..5000).map(|number| format!("line {number}\n")).collect();
    for name in ["a.txt", "a.csv", "a"] {
        let content = if name == "a" { record_io(0, 5000) } else { lines.clone().into_bytes() };
        let folder = Folder::with(&[(name, &content)]);
        let path = folder.path(name);
        let dataset = folder.open(OnDamage::Skip).unwrap();
        assert_eq!(read(&dataset, 100..110).unwrap().len(), 10);
        let shrink = OpenOptions::new().write(true).open(&path).unwrap();
        shrink.set_len(content.len() as u64 / 2).unwrap();
        let error = read(&dataset, 0..1).unwrap_err().to_string();
        let message = format!("it had {} bytes, it has {};", content.len(), content.len() / 2);
        assert!(error.contains("has changed since it was opened") && error.contains(&message), "{error}");

        fs::write(&path, &content).unwrap();
        let dataset = folder.open(OnDamage::Fail).unwrap();
        let mut change = OpenOptions::new().write(true).open(&path).unwrap();
        change.write_all(b"L").unwrap();
        change.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        let error = read(&dataset, 0..1).unwrap_err().to_string();
        assert!(error.contains("and was written to"), "{error}");
    }
}

#[test]
fn tables_know_their_columns_and_must_agree_on_them() {
    let folder = Folder::with(&[("a.csv", b"x,\"y, z\"\n1,2\n"), ("b.csv", b"x,\"y, z\"\n3,4\n")]);
    let dataset = folder.open(OnDamage::Fail).unwrap();
    assert_eq!(dataset.columns().unwrap(), ["x", "y, z"]);
    assert_eq!(read(&dataset, 0..2).unwrap(), ["1,2", "3,4"]);
    fs::write(folder.path("c.csv"), "x,y\n5,6\n").unwrap();
    assert!(matches!(folder.open(OnDamage::Fail), Err(DataError::Columns { .. })));
}

#[test]
fn files_that_are_no_dataset_are_refused_with_the_reason() {
    let refused = |files: &[(&str, &[u8])]| Folder::with(files).open(OnDamage::Fail).unwrap_err();
    assert!(matches!(refused(&[]), DataError::Nothing(_)));
    assert!(matches!(refused(&[("a.bin", b"?")]), DataError::Unknown(_)));
    assert!(matches!(refused(&[("a.txt", b"x"), ("b.csv", b"x")]), DataError::Mixed { .. }));
    assert!(matches!(refused(&[("a.csv", b"x\n\"1\n")]), DataError::Lines { offset: 2, .. }));
    let folder = Folder::with(&[("a.txt", b"x")]);
    let twice = [folder.path("a.txt"), folder.0.path().to_owned()];
    assert!(matches!(Dataset::open(&twice, &Options::default()), Err(DataError::Twice(_))));
    let missing = Dataset::open(&[folder.path("b.txt")], &Options::default()).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read"), "{missing}");
    let given = Options { format: Some(Format::Text), ..Options::default() };
    let bytes = Folder::with(&[("a.bin", b"x\ny")]);
    assert_eq!(Dataset::open(&[bytes.path("a.bin")], &given).unwrap().len(), 2);
}

#[test]
fn many_threads_read_the_same_data() {
    let folder = Folder::with(&[("a", &record_io(0, 600)), ("b", &record_io(600, 400))]);
    let dataset = folder.open(OnDamage::Fail).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let dataset = &dataset;
            scope.spawn(move || {
                for step in 0..50 {
                    let first = (thread * 131 + step * 37) % 990;
                    let expected: Vec<String> = (first..first + 10).map(|number| format!("r{number:04}")).collect();
                    assert_eq!(read(dataset, first..first + 10).unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn a_truncated_table_is_damaged_where_its_last_row_begins() {
    let folder = Folder::with(&[("a.csv", b"x,y,z\n1,2,3\n4,5,6\n7,8"), ("b.csv", b"x,y,z\n1,2,3\n")]);
    let error = folder.open(OnDamage::Fail).unwrap_err().to_string();
    let message = "a.csv: damaged at byte 18, line 4, record 2: the row has 2 fields, and the table 3 columns; was the file truncated?; \
                restore the file, or skip such records with --damaged skip";
    assert!(error.ends_with(message), "{error}");
    let dataset = folder.open(OnDamage::Skip).unwrap();
    assert_eq!(read(&dataset, 0..4).unwrap(), ["1,2,3", "4,5,6", "-", "1,2,3"]);
    assert_eq!(read(&dataset, 0..2).unwrap(), ["1,2,3", "4,5,6"]);
    assert_eq!(read(&dataset, 2..3).unwrap(), ["-"]);
    assert_eq!(dataset.damage().len(), 1);
}

#[test]
fn a_last_row_without_line_feed_may_be_complete() {
    for table in [&b"x,y\n1,2\n3,4"[..], b"x,y\n1,2\n3\n", b"x\n1\n2", b"x,y", b""] {
        Folder::with(&[("a.csv", table)]).open(OnDamage::Fail).unwrap();
    }
}

#[test]
fn the_first_record_is_the_first_intact_one() {
    let mut file = record_io(0, 5);
    let chunk = record_io(0, 2).len();
    file[25] ^= 1;
    file[chunk + 25] ^= 1;
    let folder = Folder::with(&[("a", &file)]);
    assert!(matches!(folder.open(OnDamage::Fail).unwrap().first(), Err(DataError::Damaged(_))));
    assert_eq!(folder.open(OnDamage::Skip).unwrap().first().unwrap(), Some(b"r0004".to_vec()));
    fs::write(folder.path("a"), &file[..2 * chunk]).unwrap();
    assert!(matches!(folder.open(OnDamage::Skip).unwrap().first(), Err(DataError::NothingLeft(_))));
    fs::write(folder.path("a"), []).unwrap();
    assert_eq!(folder.open(OnDamage::Fail).unwrap().first().unwrap(), None);
}

#[test]
fn a_record_of_a_table_is_found_by_file_byte_and_line() {
    // Some lines are no records, and some records have several lines.
    let folder = Folder::with(&[("a.csv", b"x,y\n1,2\n"), ("b.csv", b"x,y\n1,\"two\nlines\"\n\n3,4\n")]);
    let dataset = folder.open(OnDamage::Fail).unwrap();
    let location = dataset.location_with_line(2).unwrap();
    assert_eq!(location.to_string(), format!("{}: record 1, at byte 19, line 5", folder.path("b.csv").display()));
    assert_eq!(dataset.location(2).unwrap(), RecordLocation { line: None, ..location });
    assert!(matches!(dataset.location(3), Err(DataError::PastTheEnd { records: 3, .. })));
    let folder = Folder::with(&[("a", &record_io(0, 5))]);
    let location = folder.open(OnDamage::Fail).unwrap().location_with_line(4).unwrap();
    assert_eq!(location.to_string(), format!("{}: record 4", folder.path("a").display()));
}
