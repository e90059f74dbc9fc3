//! One file of an IDX pair.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::data_file::DataFile;
use crate::error::DataError;
use crate::read_at::ReadAt;

/// The first bytes of a gzipped file.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The dimensions of label files and of image files; colour images have more.
pub(super) const LABELS: usize = 1;
pub(super) const IMAGES: usize = 3;
/// Unsigned bytes: the only supported number type.
const BYTES: u8 = 0x08;
/// The largest decompressed size of a gzipped file.
const MOST_UNPACKED: u64 = 1 << 30;

/// The role of a file in its pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Images {
        /// Rows of pixels.
        rows: u32,
        /// Pixels per row.
        columns: u32,
    },
    Labels,
}

impl Part {
    /// The file name within a pair.
    pub fn file_name(self, pair: &str) -> String {
        match self {
            Self::Images { .. } => format!("{pair}-images-idx3-ubyte"),
            Self::Labels => format!("{pair}-labels-idx1-ubyte"),
        }
    }
}

/// Whether these are the first bytes of an IDX file of images or labels.
pub(crate) fn begins_with(first: &[u8]) -> bool {
    matches!(first, [0, 0, BYTES, 1..=8, ..])
}

/// A file of items of equal length.
#[derive(Debug)]
pub(super) struct IdxFile {
    file: DataFile,
    /// The decompressed content of a gzipped file.
    unpacked: Option<Arc<[u8]>>,
    sizes: Vec<u32>,
    item: usize,
}

/// An open file, checked for changes.
pub(super) struct IdxReader<'a> {
    of: &'a IdxFile,
    file: File,
}

impl IdxFile {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        Self::open_within(path, MOST_UNPACKED)
    }

    /// Opens a file. A gzipped one may unpack to so many bytes.
    fn open_within(path: &Path, most: u64) -> Result<Self, DataError> {
        let refused = |why: String| DataError::Idx { path: path.to_owned(), why };
        let (file, content) = DataFile::open(path)?;
        let mut magic = [0; 2];
        let is_packed = content.read_exact_at(&mut magic, 0).is_ok() && magic == GZIP;
        let unpacked: Option<Arc<[u8]>> = is_packed.then(|| unpack(path, &content, most)).transpose()?.map(Into::into);
        let source = unpacked.as_ref().map_or(&content as &dyn ReadAt, |bytes| bytes as &dyn ReadAt);
        let sizes = sizes(source).map_err(refused)?;
        let item = sizes[1..].iter().try_fold(1_usize, |product, size| product.checked_mul(*size as usize));
        // There is no telling apart items without bytes.
        let item = item.filter(|item| (1..=u32::MAX as usize).contains(item));
        let promised = item.and_then(|item| (item as u64).checked_mul(u64::from(sizes[0])));
        let Some((item, promised)) = item.zip(promised) else {
            return Err(refused("has an impossible size in its header".to_owned()));
        };
        let header = header_length(sizes.len());
        let there = source.size().map_err(DataError::io(path))?.saturating_sub(header);
        if there != promised {
            return Err(refused(format!("has {there} bytes of data, and its header says {promised}")));
        }
        Ok(Self { file, unpacked, sizes, item })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn size(&self) -> u64 {
        self.file.size()
    }

    pub(super) fn count(&self) -> u64 {
        u64::from(self.sizes[0])
    }

    /// Bytes per item.
    pub(super) fn item(&self) -> usize {
        self.item
    }

    pub(super) fn dimensions(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn reader(&self) -> Result<IdxReader<'_>, DataError> {
        Ok(IdxReader { of: self, file: self.file.again()? })
    }
}

impl IdxReader<'_> {
    pub(super) fn item(&self) -> usize {
        self.of.item
    }

    /// The bytes of a range of items.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, DataError> {
        let IdxFile { file, unpacked, sizes, item } = self.of;
        let source = unpacked.as_ref().map_or(&self.file as &dyn ReadAt, |bytes| bytes as &dyn ReadAt);
        let mut bytes = vec![0; (range.end - range.start) as usize * item];
        let offset = header_length(sizes.len()) + range.start * *item as u64;
        match source.read_exact_at(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(file.check(&self.file).err().unwrap_or_else(|| DataError::io(file.path())(error))),
        }
    }
}

fn header_length(dimensions: usize) -> u64 {
    4 + 4 * dimensions as u64
}

/// The size of every dimension; there is at least one.
fn sizes(source: &dyn ReadAt) -> Result<Vec<u32>, String> {
    let mut first = [0; 4];
    source.read_exact_at(&mut first, 0).map_err(|_| "is too short for an IDX file".to_owned())?;
    let dimensions = match first {
        [0, 0, BYTES, dimensions @ 1..=8] => dimensions,
        [0, 0, kind @ 0x09..=0x0e, 1..=8] => {
            return Err(format!("holds numbers of the kind {kind:#04x}; only bytes (0x08) are read"));
        }
        _ => return Err("is not an IDX file".to_owned()),
    };
    let mut words = vec![0; 4 * usize::from(dimensions)];
    source.read_exact_at(&mut words, 4).map_err(|_| "ends inside its header".to_owned())?;
    Ok(words.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])).collect())
}

fn unpack(path: &Path, content: &File, most: u64) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let packed = std::io::BufReader::new(content);
    let read = MultiGzDecoder::new(packed).take(most + 1).read_to_end(&mut bytes);
    let refused = |why: String| DataError::Idx { path: path.to_owned(), why };
    read.map_err(|error| refused(format!("broken gzip: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(refused(format!("it unpacks to more than {most} bytes; unpack it with gunzip first")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Labels that are all 0, gzipped.
    fn packed_labels(count: u32) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&[0, 0, BYTES, LABELS as u8]).unwrap();
        encoder.write_all(&count.to_be_bytes()).unwrap();
        encoder.write_all(&vec![0; count as usize]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_gzipped_file_that_grows_without_end_is_refused() {
        const COUNT: u32 = 32 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb-labels-idx1-ubyte.gz");
        let packed = packed_labels(COUNT);
        assert!(packed.len() < 64 << 10, "{} bytes", packed.len());
        std::fs::write(&path, packed).unwrap();
        let unpacked = u64::from(COUNT) + header_length(LABELS);
        assert_eq!(IdxFile::open_within(&path, unpacked).unwrap().count(), u64::from(COUNT));
        for most in [unpacked - 1, 1 << 20, 0] {
            let refused = IdxFile::open_within(&path, most).unwrap_err().to_string();
            let expected = format!("it unpacks to more than {most} bytes; unpack it with gunzip first");
            assert!(refused.contains(&expected), "{refused}");
        }
    }
}
