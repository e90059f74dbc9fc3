//! The file of a server's tables.
//!
//! `FLXTABLE`, a block that says which tables there are, the pieces of each partition (head, rows, end), a block that
//! says where each partition begins, and the place of that block. Every block has a checksum, so damage is told by its
//! place, and a server reads only the partitions that it needs. Dense slices are in another file; what waited for a
//! synchronous step is left out, because its batches are leased again.

mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use reader::{TableFile, TableFileError};
pub(super) use writer::TableFileWriter;

use crate::placement::PartitionId;
use crate::spec::{Fingerprint, ModelSpec};

const BEGIN: &[u8; 8] = b"FLXTABLE";
const FINISH: &[u8; 8] = b"FLXTBEND";
/// The place of the list of partitions, and the last magic.
const TAIL_BYTES: u64 = 16;
const FORMAT: u32 = 1;
const TABLES: u32 = 100;
const PARTITIONS: u32 = 101;

/// Which tables a file has rows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tables {
    format: u32,
    fingerprint: Fingerprint,
    tables: Vec<TableEntry>,
}

/// What the rows of a table look like in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableEntry {
    name: String,
    dim: u32,
    slots: Vec<String>,
    counts_steps: bool,
}

/// Where a partition is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Extent {
    partition: PartitionId,
    offset: u64,
    bytes: u64,
}

impl Tables {
    fn of(model: &ModelSpec) -> Self {
        let slots: Vec<String> = model.optimizer.slots().iter().map(|slot| (*slot).to_owned()).collect();
        let entry = |table: &crate::spec::TableSpec| TableEntry {
            name: table.name.clone(),
            dim: table.dim,
            slots: slots.clone(),
            counts_steps: model.optimizer.counts_steps(),
        };
        let tables = model.tables.iter().map(entry).collect();
        Self { format: FORMAT, fingerprint: model.fingerprint(), tables }
    }
}
