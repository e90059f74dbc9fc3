//! IDX, the format of MNIST: a file of images and a file of labels, plain or gzipped, read as one.
//!
//! ```text
//! 00 00 08 03  count rows columns   then count × rows × columns pixels
//! 00 00 08 01  count                then count labels            numbers are u32, big-endian
//! ```
//!
//! The labels of `train-images-idx3-ubyte.gz` are in `train-labels-idx1-ubyte.gz` beside it, either gzipped or not. A
//! gzipped file is decompressed into memory when it is opened; a plain one is read where it is.

mod part;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};

pub use part::Part;
pub(crate) use part::{GZIP, begins_with};
pub use writer::IdxWriter;

use crate::error::DataError;
use part::{IMAGES, IdxFile, LABELS};

/// Records per read.
const BATCH: u64 = 256;

/// Images with their labels.
#[derive(Debug)]
pub(crate) struct IdxPair {
    images: IdxFile,
    labels: IdxFile,
}

impl IdxPair {
    /// Opens a pair by its file of images.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let images = IdxFile::open(path)?;
        if images.dimensions() < IMAGES {
            let why = "these are labels; name the file of the images, which has theirs beside it".to_owned();
            return Err(DataError::Idx { path: path.to_owned(), why });
        }
        let labels = IdxFile::open(&labels_of(path)?)?;
        if labels.dimensions() != LABELS || labels.count() != images.count() {
            let (count, expected) = (labels.count(), images.count());
            let why = format!("{count} labels of {} bytes each for {expected} images", labels.item());
            return Err(DataError::Idx { path: labels.path().to_owned(), why });
        }
        Ok(Self { images, labels })
    }

    pub(crate) fn records(&self) -> u64 {
        self.images.count()
    }

    pub(crate) fn path(&self) -> &Path {
        self.images.path()
    }

    /// The size of both files.
    pub(crate) fn size(&self) -> u64 {
        self.images.size() + self.labels.size()
    }

    /// Passes a range of records to `sink`, each as label and pixels, with its number.
    pub(crate) fn read(&self, range: Range<u64>, sink: &mut dyn FnMut(u64, &[u8])) -> Result<(), DataError> {
        let (images, labels) = (self.images.reader()?, self.labels.reader()?);
        let mut record = Vec::with_capacity(1 + images.item());
        let mut next = range.start;
        while next < range.end {
            let batch = next..range.end.min(next + BATCH);
            let (pixels, kinds) = (images.read(batch.clone())?, labels.read(batch.clone())?);
            for ((number, image), label) in batch.clone().zip(pixels.chunks_exact(images.item())).zip(&kinds) {
                record.clear();
                record.push(*label);
                record.extend_from_slice(image);
                sink(number, &record);
            }
            next = batch.end;
        }
        Ok(())
    }
}

/// Whether a file holds labels whose images are beside it. Such a file is no data of its own.
pub(crate) fn belongs_to_images(path: &Path) -> bool {
    beside(path, ["labels", "images"], ["idx1", "idx3"]).is_some()
}

fn labels_of(images: &Path) -> Result<PathBuf, DataError> {
    beside(images, ["images", "labels"], ["idx3", "idx1"]).ok_or_else(|| {
        let why = "no labels beside it; those of X-images-idx3-ubyte are in X-labels-idx1-ubyte".to_owned();
        DataError::Idx { path: images.to_owned(), why }
    })
}

/// The file with these words exchanged in its name, gzipped or not.
fn beside(path: &Path, [word, other_word]: [&str; 2], [rank, other_rank]: [&str; 2]) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    if !name.contains(word) {
        return None;
    }
    let name = name.replace(word, other_word).replace(rank, other_rank);
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let candidates = [name.clone(), plain.to_owned(), format!("{plain}.gz")];
    candidates.into_iter().map(|name| path.with_file_name(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Three images of 2 × 2.
    const IMAGES: &[u8] = &[0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    const LABELS: &[u8] = &[0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9];

    #[test]
    fn images_have_their_labels_whether_gzipped_or_not() {
        let (packed_images, packed_labels) = (gzipped(IMAGES), gzipped(LABELS));
        let folder = folder_with(&[
            ("a-images-idx3-ubyte", IMAGES),
            ("a-labels-idx1-ubyte", LABELS),
            ("b-images-idx3-ubyte.gz", &packed_images),
            ("b-labels-idx1-ubyte.gz", &packed_labels),
            ("c.images.idx3-ubyte.gz", &packed_images),
            ("c.labels.idx1-ubyte", LABELS),
        ]);
        for name in ["a-images-idx3-ubyte", "b-images-idx3-ubyte.gz", "c.images.idx3-ubyte.gz"] {
            let pair = IdxPair::open(&folder.path().join(name)).unwrap();
            let mut records = Vec::new();
            pair.read(1..3, &mut |number, record| records.push((number, record.to_vec()))).unwrap();
            assert_eq!(records, [(1, vec![8, 5, 6, 7, 8]), (2, vec![9, 9, 10, 11, 12])], "{name}");
        }
        assert!(belongs_to_images(&folder.path().join("a-labels-idx1-ubyte")));
        assert!(!belongs_to_images(&folder.path().join("a-images-idx3-ubyte")));
    }

    #[test]
    fn a_mismatched_pair_is_refused_with_the_reason() {
        let huge = [&IMAGES[..4], &[0xff; 12], &IMAGES[16..]].concat();
        let without_pixels = [&IMAGES[..8], &[0; 4], &IMAGES[12..16]].concat();
        let floats = [&[0, 0, 0x0d, 1][..], &LABELS[4..]].concat();
        let folder = folder_with(&[
            ("alone-images", IMAGES),
            ("short-images", &IMAGES[..27]),
            ("short-labels", LABELS),
            ("huge-images", &huge),
            ("huge-labels", LABELS),
            ("no-pixels-images", &without_pixels),
            ("no-pixels-labels", LABELS),
            ("few-images", IMAGES),
            ("few-labels", &[0, 0, 8, 1, 0, 0, 0, 2, 7, 8]),
            ("float-images", IMAGES),
            ("float-labels", &floats),
        ]);
        let refused = |name: &str| IdxPair::open(&folder.path().join(name)).unwrap_err().to_string();
        let expected = [
            ("alone-images", "no labels beside it"),
            ("short-images", "has 11 bytes of data, and its header says 12"),
            ("huge-images", "has an impossible size in its header"),
            ("no-pixels-images", "has an impossible size in its header"),
            ("few-images", "2 labels of 1 bytes each for 3 images"),
            ("float-images", "holds numbers of the kind 0x0d"),
            ("short-labels", "these are labels"),
        ];
        for (name, why) in expected {
            assert!(refused(name).contains(why), "{name}: {}", refused(name));
        }
    }

    #[test]
    fn a_written_pair_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |part: Part| folder.path().join(part.file_name("made"));
        let mut writers = [Part::Images { rows: 2, columns: 3 }, Part::Labels]
            .map(|part| IdxWriter::new(std::fs::File::create(path(part)).unwrap(), part, 2).unwrap());
        for number in 0..2_u8 {
            writers[0].write(&[number; 6]).unwrap();
            writers[1].write(&[40 + number]).unwrap();
        }
        writers.into_iter().for_each(|writer| drop(writer.finish().unwrap()));
        let pair = IdxPair::open(&path(Part::Images { rows: 2, columns: 3 })).unwrap();
        let mut records = Vec::new();
        pair.read(0..2, &mut |_, record| records.push(record.to_vec())).unwrap();
        assert_eq!(records, [[40, 0, 0, 0, 0, 0, 0], [41, 1, 1, 1, 1, 1, 1]]);
    }

    /// The checked-in inputs of the fuzz target `idx` fulfil its claim.
    #[test]
    fn any_two_files_are_images_with_their_labels_or_refused() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/idx");
        let mut opened = Vec::new();
        for input in corpus.read_dir().unwrap().map(|entry| entry.unwrap()) {
            let bytes = std::fs::read(input.path()).unwrap();
            let Some((length, rest)) = bytes.split_first_chunk() else { continue };
            let (images, labels) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
            let folder = folder_with(&[("x-images", images), ("x-labels", labels)]);
            let Ok(pair) = IdxPair::open(&folder.path().join("x-images")) else { continue };
            let read = |range: Range<u64>| {
                let mut found = Vec::new();
                pair.read(range, &mut |_, record| found.push(record.to_vec())).unwrap();
                found
            };
            let whole = read(0..pair.records());
            assert_eq!(whole.len() as u64, pair.records(), "{}", input.path().display());
            for (number, record) in (0..).zip(&whole) {
                assert_eq!(read(number..number + 1), std::slice::from_ref(record), "{}", input.path().display());
            }
            opened.push(input.file_name().into_string().unwrap());
        }
        opened.sort();
        let good = ["eight_dimensions", "gzipped", "gzipped_images", "megabyte_of_zeros", "plain", "two_members"];
        assert_eq!(opened, good);
    }
}
