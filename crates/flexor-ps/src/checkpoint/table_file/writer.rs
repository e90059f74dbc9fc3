//! Writing a table file, partition by partition.

use std::io::{self, Write};

use super::{BEGIN, Extent, FINISH, PARTITIONS, TABLES, Tables};
use crate::block;
use crate::checkpoint::checksums::ChecksumWriter;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::spec::ModelSpec;

pub(in crate::checkpoint) struct TableFileWriter<W> {
    to: ChecksumWriter<W>,
    extents: Vec<Extent>,
    /// A reused buffer for an encoded piece.
    piece: Vec<u8>,
}

impl<W: Write> TableFileWriter<W> {
    pub(in crate::checkpoint) fn new(to: W, model: &ModelSpec) -> io::Result<Self> {
        let mut to = ChecksumWriter::new(to);
        to.write_all(BEGIN)?;
        let mut bytes = Vec::new();
        block::put(&mut bytes, TABLES, &serde_json::to_vec(&Tables::of(model))?);
        to.write_all(&bytes)?;
        Ok(Self { to, extents: Vec::new(), piece: Vec::new() })
    }

    /// Starts a partition; the following pieces belong to it.
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

    /// Ends the file. Returns its size and checksums.
    pub(in crate::checkpoint) fn finish(mut self) -> io::Result<(u64, Vec<u32>)> {
        let list_at = self.to.bytes();
        let mut bytes = Vec::new();
        block::put(&mut bytes, PARTITIONS, &serde_json::to_vec(&self.extents)?);
        bytes.extend(list_at.to_le_bytes());
        bytes.extend(FINISH);
        self.to.write_all(&bytes)?;
        Ok(self.to.finish())
    }
}
