//! The file of a server's embedding tables.
//!
//! Format: `FLXTABLE`; a block with the list of tables; the pieces of each partition (head, rows, end); a block with
//! the extent of each partition; the offset of that block; `FLXTBEND`. Every block has a checksum, so damage can be
//! located. A server reads only the partitions that it needs. Dense slices are in another file. Gradients buffered for
//! a synchronous step are omitted, because their batches are leased again.

mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use reader::{TableFile, TableFileError};
pub(super) use writer::TableFileWriter;

use crate::placement::PartitionId;
use crate::spec::{Fingerprint, ModelSpec};

const BEGIN: &[u8; 8] = b"FLXTABLE";
const FINISH: &[u8; 8] = b"FLXTBEND";
/// The offset of the extent list, and the end marker.
const TAIL_BYTES: u64 = 16;
const FORMAT: u32 = 1;
const TABLES: u32 = 100;
const PARTITIONS: u32 = 101;

/// The tables in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tables {
    format: u32,
    fingerprint: Fingerprint,
    tables: Vec<TableEntry>,
}

/// The record layout of a table in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableEntry {
    name: String,
    dim: u32,
    slots: Vec<String>,
    counts_steps: bool,
}

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
