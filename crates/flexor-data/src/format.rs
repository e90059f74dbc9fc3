//! Detects a file's format by its first bytes or, where these are ambiguous, by its name.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde::Serialize;

use crate::error::DataError;
use crate::idx;
use crate::recordio::Header;

/// A format of data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Compressed and checksummed chunks of records. A record is any bytes.
    RecordIo,
    /// A table, one record per line. Fields with commas, quotes or line breaks are quoted.
    Csv,
    /// One record per line.
    Text,
    /// Images and their labels, in two files that are read together. A record is the label's byte and the pixels.
    Idx,
}

/// Whether tables have a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CsvHeader {
    /// The first line names the columns.
    #[default]
    FirstLine,
    /// The first line is a record.
    Missing,
}

impl Format {
    pub(crate) fn of(path: &Path) -> Result<Self, DataError> {
        let mut file = File::open(path).map_err(DataError::io(path))?;
        let mut first = Vec::new();
        (&mut file).take(512).read_to_end(&mut first).map_err(DataError::io(path))?;
        Self::of_content(&first).or_else(|| Self::of_name(path)).ok_or_else(|| DataError::Unknown(path.to_owned()))
    }

    fn of_content(first: &[u8]) -> Option<Self> {
        if first.starts_with(&Header::MAGIC) {
            return Some(Self::RecordIo);
        }
        let mut unpacked = [0; 4];
        let is_idx = idx::begins_with(first)
            || (first.starts_with(&idx::GZIP)
                && GzDecoder::new(first).read_exact(&mut unpacked).is_ok()
                && idx::begins_with(&unpacked));
        is_idx.then_some(Self::Idx)
    }

    /// The format by the file's name. An empty file without an extension is RecordIO, as ElasticDL writes it.
    fn of_name(path: &Path) -> Option<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Some(Self::Csv),
            Some("txt") => Some(Self::Text),
            Some("recordio") => Some(Self::RecordIo),
            None if path.metadata().is_ok_and(|metadata| metadata.len() == 0) => Some(Self::RecordIo),
            Some(_) | None => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecordIo => "RecordIO",
            Self::Csv => "CSV",
            Self::Text => "text",
            Self::Idx => "IDX",
        })
    }
}
