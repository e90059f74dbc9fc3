//! Writing a table file, partition by partition.

use std::io::{self, Write};

use super::{BEGIN, Extent, FINISH, PARTITIONS, TABLES, Tables};
use crate::block;
use crate::checkpoint::summing::Summing;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::spec::ModelSpec;

/// A table file that is being written.
pub(in crate::checkpoint) struct TableFileWriter<W> {
    to: Summing<W>,
    extents: Vec<Extent>,
    /// A piece as bytes, in memory that is used again.
    piece: Vec<u8>,
}

impl<W: Write> TableFileWriter<W> {
    pub(in crate::checkpoint) fn new(to: W, model: &ModelSpec) -> io::Result<Self> {
        let mut to = Summing::new(to);
        to.write_all(BEGIN)?;
        let mut bytes = Vec::new();
        block::put(&mut bytes, TABLES, &serde_json::to_vec(&Tables::of(model))?);
        to.write_all(&bytes)?;
        Ok(Self { to, extents: Vec::new(), piece: Vec::new() })
    }

    /// The pieces that follow are of this partition.
    pub(in crate::checkpoint) fn begin(&mut self, partition: PartitionId) {
        self.extents.push(Extent { partition, offset: self.to.bytes(), bytes: 0 });
    }

    pub(in crate::checkpoint) fn add(&mut self, piece: &Piece) -> io::Result<()> {
        self.piece.clear();
        piece.put(&mut self.piece);
        self.to.write_all(&self.piece)?;
        if let Some(extent) = self.extents.last_mut() {
            extent.bytes = self.to.bytes() - extent.offset;
        }
        Ok(())
    }

    /// Ends the file; gives its size and checksums.
    pub(in crate::checkpoint) fn finish(mut self) -> io::Result<(u64, Vec<u32>)> {
        let place = self.to.bytes();
        let mut bytes = Vec::new();
        block::put(&mut bytes, PARTITIONS, &serde_json::to_vec(&self.extents)?);
        bytes.extend(place.to_le_bytes());
        bytes.extend(FINISH);
        self.to.write_all(&bytes)?;
        Ok(self.to.finish())
    }
}
