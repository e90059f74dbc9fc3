//! The rows that a batch needs: each key once, and the position of every use.
//!
//! A model fills a lookup from a batch; a worker pulls and pushes its keys. The lookup is separate from the model, so
//! the rows of the next batch are pulled while this one is computed.

/// The rows that one batch needs, for every table in the model's order.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    tables: Vec<TableLookup>,
}

/// The rows that one batch needs from one table.
#[derive(Debug, Clone, Default)]
pub struct TableLookup {
    keys: Vec<u64>,
    positions: Vec<u32>,
    index: KeyIndex,
}

impl Lookup {
    /// The table with this index, created on first use.
    pub fn table_mut(&mut self, table: usize) -> &mut TableLookup {
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, TableLookup::default);
        }
        &mut self.tables[table]
    }

    pub fn tables(&self) -> &[TableLookup] {
        &self.tables
    }
}

impl TableLookup {
    /// The keys to pull, each once, in the order of their first use.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// For every use of a row, record by record: its index in `keys`.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Replaces the content by the uses of another batch.
    ///
    /// # Panics
    ///
    /// When there are more than `at_most` uses.
    pub fn fill(&mut self, uses: impl Iterator<Item = u64>, at_most: usize) {
        self.keys.clear();
        self.positions.clear();
        self.index.begin(at_most);
        for key in uses {
            assert!(self.positions.len() < at_most, "a batch uses at most {at_most} rows");
            let position = self.index.position_of(key, &mut self.keys);
            self.positions.push(position);
        }
    }
}

/// Maps keys to positions: open addressing, at most half full, never cleared.
#[derive(Debug, Clone, Default)]
struct KeyIndex {
    slots: Vec<Slot>,
    /// Slots of an earlier fill are free.
    fill: u32,
    /// The top bits of a mixed key are its slot.
    shift: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    fill: u32,
    position: u32,
}

impl KeyIndex {
    fn begin(&mut self, at_most: usize) {
        let size = (2 * at_most).next_power_of_two().max(16);
        if self.slots.len() < size || self.fill == u32::MAX {
            self.slots = vec![Slot::default(); size.max(self.slots.len())];
            self.shift = u64::BITS - self.slots.len().trailing_zeros();
            self.fill = 0;
        }
        self.fill += 1;
    }

    fn position_of(&mut self, key: u64, keys: &mut Vec<u64>) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.fill != self.fill {
                *slot = Slot { fill: self.fill, position: keys.len() as u32 };
                keys.push(key);
                return slot.position;
            }
            if keys[slot.position as usize] == key {
                return slot.position;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_used_twice_is_pulled_once() {
        let mut lookup = TableLookup::default();
        lookup.fill([7, 3, 7, u64::MAX, 3].into_iter(), 5);
        assert_eq!(lookup.keys(), [7, 3, u64::MAX]);
        assert_eq!(lookup.positions(), [0, 1, 0, 2, 1]);
    }

    proptest! {
        #[test]
        fn filling_again_forgets_everything(
            fills in prop::collection::vec(prop::collection::vec(0..50_u64, 0..80), 1..8),
        ) {
            let mut lookup = TableLookup::default();
            for uses in fills {
                lookup.fill(uses.iter().copied(), uses.len());
                let mut positions = HashMap::new();
                for key in &uses {
                    let next = positions.len() as u32;
                    positions.entry(*key).or_insert(next);
                }
                prop_assert_eq!(lookup.keys().len(), positions.len());
                let wanted: Vec<u32> = uses.iter().map(|key| positions[key]).collect();
                prop_assert_eq!(lookup.positions(), wanted);
            }
        }
    }
}
