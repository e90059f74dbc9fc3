//! Sorting the parts of a checkpoint anew, for who is to keep them.
//!
//! A row or slice lies in the same partition whoever keeps it, so this goes partition by partition: the pieces of all
//! sources, less what others keep, under the numbers that tables and variables have in the model of the keeper.

use std::sync::Arc;

use super::{Keeper, Kept, KeptError, Source};
use crate::hosted::Hosted;
use crate::layout::{Layout, SliceId, TableId};
use crate::partition::{Arriving, History, Partition};
use crate::piece::{Head, Part, Piece, SliceHead, Totals};
use crate::placement::PartitionId;
use crate::snapshot::{Budget, SnapshotId};
use crate::spec::{ModelSpec, TableSpec, VariableSpec};
use crate::table::RecordShape;

/// The only copy that is made of a partition.
const COPY: SnapshotId = SnapshotId(1);

/// What becomes of the numbers of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// They go on.
    Kept,
    /// They begin with 0, as the data does: a native partition has one for each batch or step.
    FromZero,
}

pub(super) fn gather(mut kept: Kept, keeper: Keeper, versions: Versions) -> Result<Hosted, KeptError> {
    let layout = Layout::new(model_of(&kept, keeper)?)?;
    let hosted = Hosted::new(Arc::clone(&layout));
    for id in PartitionId::all() {
        let mut gathered = Gathered { layout: &layout, keeper, version: 0, slices: Vec::new(), rows: Vec::new() };
        for source in &mut kept.sources {
            // Sources have all partitions, in order.
            if let Some(partition) = source.partitions.next() {
                gathered.add(&source.layout, partition)?;
            }
        }
        if versions == Versions::FromZero {
            gathered.version = 0;
            gathered.slices.iter_mut().for_each(|(head, _)| head.version = 0);
        }
        hosted.install(gathered.partition(id)?);
    }
    Ok(hosted)
}

/// The model of a keeper: all tables, and the variables that are its own.
fn model_of(kept: &Kept, keeper: Keeper) -> Result<ModelSpec, KeptError> {
    let (mut variables, mut tables): (Vec<VariableSpec>, Vec<TableSpec>) = (Vec::new(), Vec::new());
    for Source { layout, .. } in &kept.sources {
        for variable in layout.spec().variables.iter().filter(|variable| keeper.keeps_variable(&variable.name)) {
            match variables.iter().any(|known| known.name == variable.name) {
                true => return Err(KeptError::Contradiction(variable.name.clone())),
                false => variables.push(variable.clone()),
            }
        }
        for table in &layout.spec().tables {
            match tables.iter().find(|known| known.name == table.name) {
                Some(known) if known == table => {}
                Some(_) => return Err(KeptError::Contradiction(table.name.clone())),
                None => tables.push(table.clone()),
            }
        }
    }
    Ok(ModelSpec { variables, tables, optimizer: kept.optimizer, seed: kept.seed })
}

/// What the keeper has of one partition.
struct Gathered<'a> {
    layout: &'a Arc<Layout>,
    keeper: Keeper,
    version: u64,
    slices: Vec<(SliceHead, Vec<f32>)>,
    rows: Vec<(TableId, u32, Vec<u32>)>,
}

impl Gathered<'_> {
    fn add(&mut self, from: &Layout, mut partition: Partition) -> Result<(), KeptError> {
        self.version = self.version.max(partition.version());
        let mut copy = partition.begin_copy(COPY, Budget::new(usize::MAX));
        while let Some(Piece(piece)) = partition.next_piece(&mut copy)? {
            match piece {
                Part::Slice { slice, steps, version, values } => {
                    let name = &from.spec().variables[slice.variable as usize].name;
                    if let Some(variable) = self.layout.variable_named(name) {
                        let slice = SliceId { variable, index: slice.index };
                        self.slices.push((SliceHead { slice, steps, version }, values));
                    }
                }
                Part::Rows { table, words, .. } => self.add_rows(from, table, &words),
                // What waits for a step is computed again; a history is one of batches, which only native jobs have.
                Part::Head(_) | Part::WaitingRows { .. } | Part::WaitingSlice { .. } | Part::End(_) => {}
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, from: &Layout, table: TableId, words: &[u32]) {
        let name = &from.spec().tables[table.0 as usize].name;
        let (Some(of), Some(number)) = (from.table(table), self.layout.table_named(name)) else { return };
        let (slots, counts_steps) = (from.kernel().slots(), from.kernel().counts_steps());
        let shape = RecordShape { dim: of.dim, slots, counts_steps };
        let records = words.chunks_exact(shape.words()).filter(|record| self.keeper.keeps_row(shape.key(record)));
        let mut kept = Vec::with_capacity(words.len());
        records.for_each(|record| kept.extend_from_slice(record));
        // At most as many as there were on a page.
        let count = (kept.len() / shape.words()) as u32;
        if count > 0 {
            self.rows.push((number, count, kept));
        }
    }

    fn partition(mut self, id: PartitionId) -> Result<Partition, KeptError> {
        self.slices.sort_by_key(|(head, _)| head.slice);
        let mut arriving = Arriving::new(self.layout, id);
        arriving.take(Piece(Part::Head(Head {
            partition: id,
            fingerprint: self.layout.fingerprint(),
            version: self.version,
            history: History::default(),
            slices: self.slices.iter().map(|(head, _)| *head).collect(),
            waiting: Vec::new(),
        })))?;
        for (SliceHead { slice, steps, version }, values) in self.slices {
            arriving.take(Piece(Part::Slice { slice, steps, version, values }))?;
        }
        let mut totals = Totals::default();
        for (table, count, words) in self.rows {
            totals.rows += u64::from(count);
            arriving.take(Piece(Part::Rows { table, count, words }))?;
        }
        arriving.take(Piece(Part::End(totals)))?;
        Ok(arriving.finish()?)
    }
}
