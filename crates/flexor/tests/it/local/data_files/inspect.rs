//! Tests of `flexor data inspect`.

use super::*;

/// A folder with two text files as RecordIO; the second is damaged in the middle and cut at its end.
fn damaged() -> Folder {
    let folder = Folder::new();
    for name in ["data-00000", "data-00001"] {
        let lines: String = (0..40).map(|number| format!("{name} line {number:02}\n")).collect();
        std::fs::write(folder.path("lines.txt"), lines).unwrap();
        let to = format!("shards/{name}");
        folder.done(&[
            "convert",
            "lines.txt",
            &to,
            "--into",
            "recordio",
            "--chunk-limit",
            "200",
            "--compressor",
            "none",
        ]);
    }
    let path = folder.path("shards/data-00001");
    let mut bytes = std::fs::read(&path).unwrap();
    // A chunk has a header of 20 bytes, and eleven records of 18 bytes with their lengths. This is in the second one.
    bytes[20 + 11 * 22 + 30] ^= 0xff;
    bytes.truncate(bytes.len() - 1);
    std::fs::write(path, bytes).unwrap();
    folder
}

#[test]
fn files_chunks_and_damage_are_printed_for_people() {
    let folder = damaged();
    let ran = folder.data(&["inspect", "shards", "--head", "2"]);
    assert_eq!(ran.code, 1, "damage is a failure");
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn files_chunks_and_damage_are_printed_for_programs() {
    let folder = damaged();
    let summary = folder.json(&["inspect", "-o", "json", "shards"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap());
    let quick = folder.json(&["inspect", "-o", "json", "--quick", "shards"]);
    assert_eq!(quick["damage"].as_array().unwrap().len(), 1, "only what the headers tell");
}

#[test]
fn an_unknown_number_of_lost_records_is_reported() {
    let folder = damaged();
    let mut bytes = std::fs::read(folder.path("shards/data-00000")).unwrap();
    bytes[20 + 11 * 22] = 0;
    std::fs::write(folder.path("alone"), bytes).unwrap();
    let ran = folder.data(&["inspect", "alone"]);
    let lines: Vec<&str> = ran.stdout.lines().skip(3).collect();
    let expected = [
        "RecordIO, 11 records in 1 file, 0 of them damaged, and an unknown number lost",
        "  alone: damaged at byte 262, everything behind it: no chunk begins here: the magic number is 0x01020300, not 0x01020304",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn tables_show_their_columns_and_first_records() {
    let folder = Folder::new();
    std::fs::write(folder.path("a.csv"), "x,\"y\nz\"\n1,\"two\nlines\"\n2,\u{1b}[31mred\n").unwrap();
    let shown = folder.done(&["inspect", "a.csv", "--head", "9"]);
    insta::assert_snapshot!(shown);
}

#[test]
fn a_row_of_a_table_that_is_too_short_is_damage() {
    let folder = Folder::new();
    // The last row was cut in the middle of its third field; another one has a field too many.
    std::fs::write(folder.path("cut.csv"), "a,b,c,d\n1,2,3,4\n1,2,3,4,5\n\"1,1\",2,3,4\n1,2,3").unwrap();
    let summary = folder.json(&["inspect", "-o", "json", "cut.csv"]);
    assert_eq!((&summary["records"], &summary["damaged_records"]), (&4.into(), &2.into()), "{summary}");
    let ran = folder.data(&["inspect", "cut.csv"]);
    assert_eq!(ran.code, 1, "damage is a failure");
    let expected = [
        "  cut.csv: damaged at byte 16, line 3, record 1: the row has 5 fields, and the table 4 columns",
        "  cut.csv: damaged at byte 38, line 5, record 3: the row has 3 fields, and the table 4 columns; was the file truncated?",
    ];
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("damaged at")).collect();
    assert_eq!(lines, expected);
    // Without a header the first row gives the number of columns; a text file has no fields.
    std::fs::write(folder.path("bare.csv"), "1,2\n1,2\n").unwrap();
    folder.done(&["inspect", "bare.csv", "--no-header"]);
    std::fs::write(folder.path("lines.txt"), "1,2\n1\n").unwrap();
    folder.done(&["inspect", "lines.txt"]);
}
