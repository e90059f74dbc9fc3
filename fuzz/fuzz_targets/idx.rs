//! Any two files are images with their labels or refused; every record has all its pixels, and what a range gives does
//! not hang on where it begins. The first two bytes say how long the file of images is.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use flexor_data::{Content, Dataset, Format, Options};
use libfuzzer_sys::fuzz_target;

/// Gzipped images can be far more than an input has bytes.
const MOST: u64 = 2_000;

/// A folder of this process.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("flexor-fuzz-idx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
});

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (images, labels) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    let path = FOLDER.join("x-images-idx3-ubyte");
    std::fs::write(&path, images).expect("a file can be written");
    std::fs::write(FOLDER.join("x-labels-idx1-ubyte"), labels).expect("a file can be written");
    let options = Options { format: Some(Format::Idx), ..Options::default() };
    let Ok(dataset) = Dataset::open(&[path], &options) else { return };
    let records = dataset.len().min(MOST);
    let read = |range: std::ops::Range<u64>| {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let progress = dataset.read(range.clone(), &mut |record| {
            assert_eq!(record.number, range.start + found.len() as u64);
            let Content::Whole(bytes) = record.content else { panic!("nothing of such a file is damaged") };
            found.push(bytes.to_vec());
        });
        assert_eq!(progress.expect("a file that was opened is read").records, range.end - range.start);
        found
    };
    let whole = read(0..records);
    assert!(whole.windows(2).all(|two| two[0].len() == two[1].len()));
    for (number, record) in (0..records).zip(&whole) {
        assert_eq!(read(number..number + 1), std::slice::from_ref(record));
    }
});
