//! Redistribution of a checkpoint to another number of servers.
//!
//! A row or slice has the same partition on every server, so this works partition by partition. It merges the pieces of
//! all sources, drops what belongs to other servers, and renumbers tables and variables for the new model.

use std::sync::Arc;

use super::{LoadError, LoadedCheckpoint, ModelShare, PartSource};
use crate::hosted::HostedPartitions;
use crate::layout::{Layout, SliceId, TableId};
use crate::partition::{History, Partition, PartitionImport};
use crate::piece::{Piece, PieceBody, PieceHead, SliceHead, Totals};
use crate::placement::PartitionId;
use crate::snapshot::{Budget, SnapshotId};
use crate::spec::{ModelSpec, TableSpec, VariableSpec};
use crate::table::RecordShape;

/// The id of the only export of each partition.
const EXPORT: SnapshotId = SnapshotId(1);

/// The treatment of partition versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionPolicy {
    /// Continue from the versions of the checkpoint.
    Keep,
    /// Start from 0, as the data does: a native partition counts one version per batch or step.
    Reset,
}

pub(super) fn redistribute(
    mut loaded: LoadedCheckpoint,
    share: ModelShare,
    versions: VersionPolicy,
) -> Result<HostedPartitions, LoadError> {
    let layout = Layout::new(model_of(&loaded, share)?)?;
    let hosted = HostedPartitions::new(Arc::clone(&layout));
    for id in PartitionId::all() {
        let mut merge = PartitionMerge { layout: &layout, share, version: 0, slices: Vec::new(), rows: Vec::new() };
        for source in &mut loaded.sources {
            // Every source has all partitions in ascending order.
            if let Some(partition) = source.partitions.next() {
                merge.add(&source.layout, partition)?;
            }
        }
        if versions == VersionPolicy::Reset {
            merge.version = 0;
            merge.slices.iter_mut().for_each(|(head, _)| head.version = 0);
        }
        hosted.install(merge.partition(id)?);
    }
    Ok(hosted)
}

/// The model of a share: all tables, and the variables of the share.
fn model_of(loaded: &LoadedCheckpoint, share: ModelShare) -> Result<ModelSpec, LoadError> {
    let (mut variables, mut tables): (Vec<VariableSpec>, Vec<TableSpec>) = (Vec::new(), Vec::new());
    for PartSource { layout, .. } in &loaded.sources {
        for variable in layout.spec().variables.iter().filter(|variable| share.includes_variable(&variable.name)) {
            match variables.iter().any(|known| known.name == variable.name) {
                true => return Err(LoadError::Contradiction(variable.name.clone())),
                false => variables.push(variable.clone()),
            }
        }
        for table in &layout.spec().tables {
            match tables.iter().find(|known| known.name == table.name) {
                Some(known) if known == table => {}
                Some(_) => return Err(LoadError::Contradiction(table.name.clone())),
                None => tables.push(table.clone()),
            }
        }
    }
    Ok(ModelSpec { variables, tables, optimizer: loaded.optimizer, seed: loaded.seed })
}

/// The share's contents of one partition, merged from all sources.
struct PartitionMerge<'a> {
    layout: &'a Arc<Layout>,
    share: ModelShare,
    version: u64,
    slices: Vec<(SliceHead, Vec<f32>)>,
    rows: Vec<(TableId, u32, Vec<u32>)>,
}

impl PartitionMerge<'_> {
    fn add(&mut self, from: &Layout, mut partition: Partition) -> Result<(), LoadError> {
        self.version = self.version.max(partition.version());
        let mut export = partition.start_export(EXPORT, Budget::new(usize::MAX));
        while let Some(Piece(piece)) = partition.next_piece(&mut export)? {
            match piece {
                PieceBody::Slice { slice, steps, version, values } => {
                    let name = &from.spec().variables[slice.variable as usize].name;
                    if let Some(variable) = self.layout.variable_named(name) {
                        let slice = SliceId { variable, index: slice.index };
                        self.slices.push((SliceHead { slice, steps, version }, values));
                    }
                }
                PieceBody::Rows { table, words, .. } => self.add_rows(from, table, &words),
                // BufferOutcome gradients are computed again. Only native jobs have a batch history.
                PieceBody::Head(_)
                | PieceBody::WaitingRows { .. }
                | PieceBody::WaitingSlice { .. }
                | PieceBody::End(_) => {}
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, from: &Layout, table: TableId, words: &[u32]) {
        let name = &from.spec().tables[table.0 as usize].name;
        let (Some(of), Some(number)) = (from.table(table), self.layout.table_named(name)) else { return };
        let (slots, counts_steps) = (from.kernel().slots(), from.kernel().counts_steps());
        let shape = RecordShape { dim: of.dim, slots, counts_steps };
        let records = words.chunks_exact(shape.words()).filter(|record| self.share.includes_row(shape.key(record)));
        let mut own = Vec::with_capacity(words.len());
        records.for_each(|record| own.extend_from_slice(record));
        // Fits: a piece of rows is bounded.
        let count = (own.len() / shape.words()) as u32;
        if count > 0 {
            self.rows.push((number, count, own));
        }
    }

    fn partition(mut self, id: PartitionId) -> Result<Partition, LoadError> {
        self.slices.sort_by_key(|(head, _)| head.slice);
        let mut import = PartitionImport::new(self.layout, id);
        import.add(Piece(PieceBody::Head(PieceHead {
            partition: id,
            fingerprint: self.layout.fingerprint(),
            version: self.version,
            history: History::default(),
            slices: self.slices.iter().map(|(head, _)| *head).collect(),
            waiting: Vec::new(),
        })))?;
        for (SliceHead { slice, steps, version }, values) in self.slices {
            import.add(Piece(PieceBody::Slice { slice, steps, version, values }))?;
        }
        let mut totals = Totals::default();
        for (table, count, words) in self.rows {
            totals.rows += u64::from(count);
            import.add(Piece(PieceBody::Rows { table, count, words }))?;
        }
        import.add(Piece(PieceBody::End(totals)))?;
        Ok(import.finish()?)
    }
}
