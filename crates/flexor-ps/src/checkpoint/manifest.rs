//! The manifest of a checkpoint: the model, the versions of its partitions and its files. It is written last.
//!
//! Format: `{"checksum": "…", "manifest": {…}}`. The checksum is CRC-32C of the manifest as JSON without spaces.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, CheckpointId, MANIFEST};
use crate::placement::PartitionId;
use crate::spec::{Fingerprint, ModelSpec};

/// The version of the manifest format.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    format: u32,
    pub id: CheckpointId,
    pub model: ModelSpec,
    pub fingerprint: Fingerprint,
    /// Sorted by partition.
    pub versions: Vec<PartitionVersion>,
    /// All files except the manifest.
    pub files: Vec<FileEntry>,
    /// The data ledger at this moment, in the encoding of the job's master.
    #[serde(with = "as_base64")]
    pub ledger: Vec<u8>,
}

/// The version of a partition: its number of applied updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionVersion {
    pub partition: PartitionId,
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// Relative to the directory of the checkpoint.
    pub name: String,
    pub contents: Contents,
    pub partitions: Vec<PartitionId>,
    pub bytes: u64,
    /// CRC-32C of each MiB.
    pub checksums: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contents {
    /// Rows of embedding tables, and the version and batch history of partitions.
    Tables,
    /// Dense variables in safetensors format.
    Dense,
}

/// The manifest with its checksum, as written.
#[derive(Serialize, Deserialize)]
struct SealedManifest {
    checksum: String,
    manifest: Manifest,
}

impl Manifest {
    pub fn new(
        id: CheckpointId,
        model: ModelSpec,
        versions: Vec<PartitionVersion>,
        files: Vec<FileEntry>,
        ledger: Vec<u8>,
    ) -> Self {
        Self { format: FORMAT, id, fingerprint: model.fingerprint(), model, versions, files, ledger }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let sealed = SealedManifest { checksum: self.checksum(), manifest: self.clone() };
        // Serialising numbers, texts and lists into memory cannot fail.
        serde_json::to_vec_pretty(&sealed).unwrap_or_default()
    }

    /// Decodes and verifies a manifest.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |offset: usize, why: &dyn std::fmt::Display| CheckpointError::Damaged {
            file: MANIFEST.to_owned(),
            offset: offset as u64,
            why: why.to_string(),
        };
        let sealed: SealedManifest =
            serde_json::from_slice(bytes).map_err(|error| damaged(offset_of(bytes, &error), &error))?;
        let manifest = sealed.manifest;
        if manifest.format != FORMAT {
            let why = format!("the manifest has format {}, this program reads format {FORMAT}", manifest.format);
            return Err(damaged(0, &why));
        }
        if manifest.checksum() != sealed.checksum {
            return Err(damaged(0, &"the checksum does not match the contents"));
        }
        manifest.model.check().map_err(|error| damaged(0, &error))?;
        match manifest.model.fingerprint() == manifest.fingerprint {
            true => Ok(manifest),
            false => Err(damaged(0, &"the fingerprint does not match the model")),
        }
    }

    fn checksum(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        format!("{:08x}", crc32c::crc32c(&text))
    }
}

/// The byte offset of a JSON error.
fn offset_of(bytes: &[u8], error: &serde_json::Error) -> usize {
    let before: usize =
        bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    before + error.column().saturating_sub(1)
}

/// Bytes as base64 text in JSON.
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
