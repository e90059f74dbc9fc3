use proptest::prelude::*;

use super::*;
use crate::format::CsvHeader;

/// All records of a file.
fn all(lines: Lines, header: CsvHeader, file: &[u8]) -> Vec<String> {
    let index = LineIndex::of(&file, lines, header).unwrap();
    range(&index, file, 0..index.records())
}

fn range(index: &LineIndex, file: &[u8], range: std::ops::Range<u64>) -> Vec<String> {
    let mut records = Vec::new();
    let first = range.start;
    let mut sink = |number: u64, line: &[u8]| {
        assert_eq!(number, first + records.len() as u64);
        records.push(String::from_utf8(line.to_vec()).unwrap());
    };
    index.read(&file, range, &mut sink).unwrap();
    records
}

#[test]
fn a_line_is_a_record_even_an_empty_one() {
    let text = |file: &str| all(Lines::Text, CsvHeader::FirstLine, file.as_bytes());
    assert_eq!(text("a\n\nb \"\r\nc"), ["a", "", "b \"", "c"]);
    assert_eq!(text("\u{feff}a\n"), ["a"]);
    assert_eq!(text(""), [""; 0]);
    assert_eq!(text("\n"), [""]);
}

#[test]
fn a_table_has_quoted_line_breaks_and_no_empty_records() {
    let file = b"x,y\r\n1,\"two\nlines \"\"quoted\"\"\"\n\n2,5\" disk\n";
    assert_eq!(all(Lines::Csv, CsvHeader::FirstLine, file), ["1,\"two\nlines \"\"quoted\"\"\"", "2,5\" disk"]);
    assert_eq!(all(Lines::Csv, CsvHeader::Missing, file)[0], "x,y");
    let index = LineIndex::of(&&file[..], Lines::Csv, CsvHeader::FirstLine).unwrap();
    assert_eq!(index.header(), Some(&b"x,y"[..]));
}

#[test]
fn a_quote_that_is_never_closed_is_named_by_its_line() {
    let file = b"x\n1\n\"2\n3\n";
    let error = LineIndex::of(&&file[..], Lines::Csv, CsvHeader::FirstLine).unwrap_err();
    assert!(matches!(error, LinesError::Line { offset: 4, .. }), "{error:?}");
}

#[test]
fn ranges_begin_in_the_middle_of_long_files() {
    let lines: Vec<String> = (0..10_000).map(|number| format!("line {number} {}", "x".repeat(number % 37))).collect();
    let file = lines.join("\n");
    let index = LineIndex::of(&file.as_bytes(), Lines::Text, CsvHeader::FirstLine).unwrap();
    assert_eq!(index.records(), 10_000);
    for first in [0, 1, 127, 128, 4_711, 9_936] {
        assert_eq!(range(&index, file.as_bytes(), first..first + 64), lines[first as usize..first as usize + 64]);
    }
    assert_eq!(range(&index, file.as_bytes(), 10_000..10_000), [""; 0]);
}

#[test]
fn a_line_longer_than_one_read_is_complete() {
    let file =
        [b"x".repeat(3 << 20), b"\n".to_vec(), b"\"".to_vec(), b"y\n".repeat(1 << 20), b"\"\nz".to_vec()].concat();
    let records = all(Lines::Csv, CsvHeader::Missing, &file);
    assert_eq!(records.iter().map(String::len).collect::<Vec<_>>(), [3 << 20, (2 << 20) + 2, 1]);
}

proptest! {
    #[test]
    fn tables_have_the_records_that_the_csv_crate_finds(file in "[ab,\"\n]{0,40}") {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file.as_bytes());
        let expected = reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        let expected: Vec<Vec<Vec<u8>>> = expected.collect();
        // An unclosed quote is an error here, and the end of the file there.
        if let Ok(index) = LineIndex::of(&file.as_bytes(), Lines::Csv, CsvHeader::Missing) {
            let records = range(&index, file.as_bytes(), 0..index.records());
            let fields = |record: &String| crate::csv::fields(record.as_bytes()).map(std::borrow::Cow::into_owned).collect();
            let read: Vec<Vec<Vec<u8>>> = records.iter().map(fields).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
