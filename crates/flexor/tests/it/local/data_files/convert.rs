//! Tests of `flexor data convert`.

use super::*;

#[test]
fn digits_become_shards_as_elasticdl_has_them_and_any_compressor_gives_the_same_records() {
    let folder = Folder::new();
    folder.done(&["gen", "digits", "--out", "d", "--records", "50"]);
    let shown =
        folder.done(&["convert", "d-images-idx3-ubyte", "train", "--records-per-file", "20", "--compressor", "gzip"]);
    assert_eq!(shown, "3 files in train: 50 records\n");
    let summary = folder.json(&["inspect", "-o", "json", "train"]);
    let records: Vec<_> =
        summary["files"].as_array().unwrap().iter().map(|file| file["records"].as_u64().unwrap()).collect();
    assert_eq!(records, [20, 20, 10]);
    assert_eq!(summary["files"][0]["compressors"], serde_json::json!({"gzip": 1}));

    // Three ways to the same plain file.
    folder.done(&["convert", "train", "a.recordio", "--compressor", "none"]);
    folder.done(&["convert", "d-images-idx3-ubyte", "b.recordio", "--compressor", "none"]);
    folder.done(&["gen", "digits", "--out", "c.recordio", "--records", "50", "--compressor", "none"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| std::fs::read(folder.path(&format!("{name}.recordio"))).unwrap());
    assert!(a == b && b == c);
    // A header, and 50 records of 3,174 bytes with their lengths.
    assert_eq!(a.len(), 20 + 50 * (4 + 3174));
}

#[test]
fn fewer_files_that_replace_more_leave_none_of_them_behind() {
    let folder = Folder::new();
    folder.done(&["gen", "census", "--out", "a.csv", "--records", "100"]);
    folder.done(&["convert", "a.csv", "parts", "--records-per-file", "20"]);
    std::fs::write(folder.path("parts/notes.txt"), "mine").unwrap();
    let again = ["convert", "a.csv", "parts", "--records-per-file", "50", "--force"];
    assert_eq!(folder.done(&again), "2 files in parts: 100 records\n");
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path("parts")).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["data-00000", "data-00001", "notes.txt"]);
}

#[test]
fn a_table_goes_there_and_back() {
    let folder = Folder::new();
    folder.done(&["gen", "census", "--out", "a.csv", "--records", "200"]);
    assert_eq!(folder.done(&["convert", "a.csv", "b.recordio"]), "b.recordio: 200 records\n");
    folder.done(&["convert", "b.recordio", "c.csv"]);
    let [a, c] = ["a.csv", "c.csv"].map(|name| std::fs::read_to_string(folder.path(name)).unwrap());
    assert_eq!(a, c);
    // As the generator writes it.
    folder.done(&["gen", "census", "--out", "d.recordio", "--records", "200"]);
    let [b, d] = ["b.recordio", "d.recordio"].map(|name| std::fs::read(folder.path(name)).unwrap());
    assert_eq!(b, d);
}

#[test]
fn damaged_records_stop_the_conversion_or_are_skipped_and_counted() {
    let folder = Folder::new();
    let lines: String = (0..100).map(|number| format!("line {number}\n")).collect();
    std::fs::write(folder.path("a.txt"), lines).unwrap();
    folder.done(&["convert", "a.txt", "a.recordio", "--chunk-limit", "100"]);
    let mut bytes = std::fs::read(folder.path("a.recordio")).unwrap();
    bytes[30] ^= 1;
    std::fs::write(folder.path("a.recordio"), bytes).unwrap();

    let failed = folder.data(&["convert", "a.recordio", "b.txt"]);
    assert_eq!((failed.code, folder.path("b.txt").exists()), (1, false));
    assert!(failed.stderr.contains("a.recordio: damaged at byte 0, records 0 to 14"), "{}", failed.stderr);

    let skipped = folder.data(&["convert", "a.recordio", "b.txt", "--damaged", "skip"]);
    assert_eq!((skipped.code, &skipped.stdout[..]), (0, "b.txt: 85 records, 15 skipped\n"));
    assert!(skipped.stderr.starts_with("warning: a.recordio: damaged at byte 0"), "{}", skipped.stderr);
    assert!(std::fs::read_to_string(folder.path("b.txt")).unwrap().starts_with("line 15\n"));
}

#[test]
fn nonsensical_options_are_refused_with_a_valid_form() {
    let folder = Folder::new();
    std::fs::write(folder.path("a.csv"), "x\n1\n").unwrap();
    let ran = folder.data(&["convert", "a.csv", "b.txt"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.stderr,
        "error: CSV cannot be converted to text; `flexor data convert --help` lists the supported conversions\n"
    );
    assert!(folder.data(&["convert", "none.csv", "b"]).stderr.contains("cannot read none.csv"));
}
