//! Which rows of which table a batch needs: each once, and where each record finds its own.
//!
//! A model fills a lookup from a batch; its keys are what a worker pulls and pushes. It is apart from the model, so
//! that the rows of the next batch can be fetched while this one is computed.

/// The rows that one batch needs of every table of a model, in the order of the model's tables.
#[derive(Debug, Clone, Default)]
pub struct Lookup {
    tables: Vec<TableLookup>,
}

/// The rows that one batch needs of one table.
#[derive(Debug, Clone, Default)]
pub struct TableLookup {
    keys: Vec<u64>,
    places: Vec<u32>,
    finder: Finder,
}

impl Lookup {
    /// The table at a place, made when it is asked for the first time.
    pub fn table_mut(&mut self, table: usize) -> &mut TableLookup {
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, TableLookup::default);
        }
        &mut self.tables[table]
    }

    /// Every table.
    pub fn tables(&self) -> &[TableLookup] {
        &self.tables
    }
}

impl TableLookup {
    /// The rows to pull, each once, in the order of their first use in the batch.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// For every use of a row in the batch, record by record: its place among the keys.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// Begins anew with the uses of another batch.
    ///
    /// # Panics
    ///
    /// When there are more uses than said.
    pub fn fill(&mut self, uses: impl Iterator<Item = u64>, at_most: usize) {
        self.keys.clear();
        self.places.clear();
        self.finder.begin(at_most);
        for key in uses {
            assert!(self.places.len() < at_most, "a batch uses at most {at_most} rows");
            let place = self.finder.place_of(key, &mut self.keys);
            self.places.push(place);
        }
    }
}

/// Finds the place of a key: open addressing, at most half full, never cleared.
#[derive(Debug, Clone, Default)]
struct Finder {
    slots: Vec<Slot>,
    /// Slots of an earlier fill are free.
    fill: u32,
    /// The top bits of a mixed key are its slot.
    shift: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    fill: u32,
    place: u32,
}

impl Finder {
    fn begin(&mut self, at_most: usize) {
        let size = (2 * at_most).next_power_of_two().max(16);
        if self.slots.len() < size || self.fill == u32::MAX {
            self.slots = vec![Slot::default(); size.max(self.slots.len())];
            self.shift = u64::BITS - self.slots.len().trailing_zeros();
            self.fill = 0;
        }
        self.fill += 1;
    }

    fn place_of(&mut self, key: u64, keys: &mut Vec<u64>) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.fill != self.fill {
                *slot = Slot { fill: self.fill, place: keys.len() as u32 };
                keys.push(key);
                return slot.place;
            }
            if keys[slot.place as usize] == key {
                return slot.place;
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
    fn a_row_used_twice_is_asked_for_once() {
        let mut lookup = TableLookup::default();
        lookup.fill([7, 3, 7, u64::MAX, 3].into_iter(), 5);
        assert_eq!(lookup.keys(), [7, 3, u64::MAX]);
        assert_eq!(lookup.places(), [0, 1, 0, 2, 1]);
    }

    proptest! {
        #[test]
        fn filling_again_forgets_everything(
            fills in prop::collection::vec(prop::collection::vec(0..50_u64, 0..80), 1..8),
        ) {
            let mut lookup = TableLookup::default();
            for uses in fills {
                lookup.fill(uses.iter().copied(), uses.len());
                let mut places = HashMap::new();
                for key in &uses {
                    let next = places.len() as u32;
                    places.entry(*key).or_insert(next);
                }
                prop_assert_eq!(lookup.keys().len(), places.len());
                let wanted: Vec<u32> = uses.iter().map(|key| places[key]).collect();
                prop_assert_eq!(lookup.places(), wanted);
            }
        }
    }
}
