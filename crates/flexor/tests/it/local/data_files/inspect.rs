//! `flexor data inspect`.

use super::*;

/// A folder with two files of text as RecordIO, of which the second is damaged in the middle and cut at its end.
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
fn files_chunks_and_damage_are_told_to_people() {
    let folder = damaged();
    let ran = folder.data(&["inspect", "shards", "--head", "2"]);
    assert_eq!(ran.code, 1, "damage is a failure");
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn files_chunks_and_damage_are_told_to_programs() {
    let folder = damaged();
    let told = folder.json(&["inspect", "-o", "json", "shards"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&told).unwrap());
    let quick = folder.json(&["inspect", "-o", "json", "--quick", "shards"]);
    assert_eq!(quick["damage"].as_array().unwrap().len(), 1, "only what the headers tell");
}

#[test]
fn what_cannot_be_counted_is_told_too() {
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
