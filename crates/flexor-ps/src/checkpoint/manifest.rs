//! The manifest of a checkpoint: what it is of, and which files it has. Written last, as JSON.
//!
//! `{"checksum": "…", "manifest": {…}}`, where the checksum is CRC-32C of the manifest written as JSON without spaces.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, CheckpointId, MANIFEST};
use crate::placement::PartitionId;
use crate::spec::{Fingerprint, ModelSpec};

/// The version of the format that is written.
const FORMAT: u32 = 1;

/// What a checkpoint is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The version of the format.
    format: u32,
    /// Which checkpoint.
    pub id: CheckpointId,
    /// The model.
    pub model: ModelSpec,
    /// The model's number.
    pub fingerprint: Fingerprint,
    /// How many updates each partition had, by its number.
    pub versions: Vec<PartitionVersion>,
    /// All files but this one.
    pub files: Vec<FileEntry>,
    /// Where the data ledger stood; only the job's master can read it.
    #[serde(with = "as_base64")]
    pub ledger: Vec<u8>,
}

/// How many updates a partition had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionVersion {
    /// The partition.
    pub partition: PartitionId,
    /// Its version.
    pub version: u64,
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// What is in it.
    pub contents: Contents,
    /// Its partitions.
    pub partitions: Vec<PartitionId>,
    /// How many bytes it has.
    pub bytes: u64,
    /// CRC-32C of each MiB of it.
    pub checksums: Vec<u32>,
}

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contents {
    /// Rows of embedding tables, and what partitions remember.
    Tables,
    /// Dense variables, as safetensors.
    Dense,
}

/// How it is written.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checksum: String,
    manifest: Manifest,
}

impl Manifest {
    /// A manifest of these files.
    pub fn new(
        id: CheckpointId,
        model: ModelSpec,
        versions: Vec<PartitionVersion>,
        files: Vec<FileEntry>,
        ledger: Vec<u8>,
    ) -> Self {
        Self { format: FORMAT, id, fingerprint: model.fingerprint(), model, versions, files, ledger }
    }

    /// As it is written.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sealed = Sealed { checksum: self.checksum(), manifest: self.clone() };
        // Writing numbers, texts and lists into memory has no way to fail.
        serde_json::to_vec_pretty(&sealed).unwrap_or_default()
    }

    /// From what was written; damage is named.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |offset: usize, why: &dyn std::fmt::Display| CheckpointError::Damaged {
            file: MANIFEST.to_owned(),
            offset: offset as u64,
            why: why.to_string(),
        };
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| damaged(place(bytes, &error), &error))?;
        let manifest = sealed.manifest;
        if manifest.format != FORMAT {
            let why = format!("it has format {}, this program reads format {FORMAT}", manifest.format);
            return Err(damaged(0, &why));
        }
        if manifest.checksum() != sealed.checksum {
            return Err(damaged(0, &"its checksum is that of other contents"));
        }
        manifest.model.check().map_err(|error| damaged(0, &error))?;
        match manifest.model.fingerprint() == manifest.fingerprint {
            true => Ok(manifest),
            false => Err(damaged(0, &"its model has another number than it says")),
        }
    }

    fn checksum(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("{:08x}", crc32c::crc32c(&text))
    }
}

/// Where in the bytes a JSON error is.
fn place(bytes: &[u8], error: &serde_json::Error) -> usize {
    let before: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    before + error.column().saturating_sub(1)
}

/// Bytes as text in JSON.
mod as_base64 {
    use serde::{Deserializer, Serializer, de};

    use super::{Deserialize, Engine, STANDARD};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(de::Error::custom)
    }
}
