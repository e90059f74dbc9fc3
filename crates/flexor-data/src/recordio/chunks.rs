//! What has been learnt about chunks that were touched: the fewest bytes to remember for the next range to be cheap.
//!
//! For each chunk a [`Mark`] at every sixteenth record, as far as somebody has gone; and for gzip, which cannot be begun
//! in its middle, the decompressed bytes. Those touched longest ago are forgotten when it becomes too much; then the next
//! touch takes the checksum again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::payload::Mark;

/// How many records share a mark.
pub(super) const STRIDE: u32 = 16;

/// A file among those that share a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey(pub u32);

/// What is remembered about a chunk whose checksum was right.
#[derive(Debug)]
pub(super) struct Known {
    /// Where the records 0, 16, 32 … of the chunk begin, as far as somebody has gone.
    marks: Mutex<Vec<Mark>>,
    /// All of it, decompressed, for gzip.
    unpacked: Option<Arc<[u8]>>,
    /// How many marks there are in the end.
    most_marks: usize,
}

impl Known {
    /// Nothing but that the checksum of a chunk of so many records was right.
    pub(super) fn new(records: u32, unpacked: Option<Arc<[u8]>>) -> Self {
        Self { marks: Mutex::default(), unpacked, most_marks: records.div_ceil(STRIDE) as usize }
    }

    /// All of it, decompressed.
    pub(super) fn unpacked(&self) -> Option<Arc<[u8]>> {
        self.unpacked.clone()
    }

    /// The last known place before a record, and which record is there.
    pub(super) fn nearest(&self, record: u32) -> (u32, Mark) {
        let marks = locked(&self.marks);
        let at = (record / STRIDE).min((marks.len() as u32).saturating_sub(1));
        (at * STRIDE, marks.get(at as usize).copied().unwrap_or_default())
    }

    /// Takes note of where a record is that has a mark. They come in order; what is known already changes nothing.
    pub(super) fn learn(&self, record: u32, mark: Mark) {
        let mut marks = locked(&self.marks);
        if marks.len() == (record / STRIDE) as usize {
            marks.push(mark);
        }
    }

    fn bytes(&self) -> usize {
        // An entry costs something even if it has no marks.
        let unpacked = self.unpacked.as_ref().map_or(0, |bytes| bytes.len());
        128 + self.most_marks * size_of::<Mark>() + unpacked
    }
}

/// The memory of chunks, shared by the files of a dataset and by all threads that read it.
#[derive(Debug)]
pub struct Chunks {
    budget: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    chunks: HashMap<(FileKey, u64), Entry>,
    /// The same, those touched longest ago first.
    by_touch: BTreeMap<u64, (FileKey, u64)>,
    bytes: usize,
    touches: u64,
}

#[derive(Debug)]
struct Entry {
    known: Arc<Known>,
    touched: u64,
}

impl Chunks {
    /// A memory of about so many bytes.
    pub fn new(budget: usize) -> Self {
        Self { budget, held: Mutex::default() }
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.locked().bytes
    }

    /// What is known about the chunk of a file that begins at `offset`.
    pub(super) fn get(&self, file: FileKey, offset: u64) -> Option<Arc<Known>> {
        let mut held = self.locked();
        let held = &mut *held;
        let entry = held.chunks.get_mut(&(file, offset))?;
        held.by_touch.remove(&entry.touched);
        held.touches += 1;
        entry.touched = held.touches;
        held.by_touch.insert(entry.touched, (file, offset));
        Some(Arc::clone(&entry.known))
    }

    /// Remembers it.
    pub(super) fn put(&self, file: FileKey, offset: u64, known: Arc<Known>) {
        let cost = known.bytes();
        if cost > self.budget {
            return;
        }
        let mut held = self.locked();
        if let Some(entry) = held.chunks.get(&(file, offset)) {
            let touched = entry.touched;
            held.forget(touched);
        }
        held.touches += 1;
        let touched = held.touches;
        held.chunks.insert((file, offset), Entry { known, touched });
        held.by_touch.insert(touched, (file, offset));
        held.bytes += cost;
        while held.bytes > self.budget
            && let Some((&oldest, _)) = held.by_touch.first_key_value()
        {
            held.forget(oldest);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Held> {
        locked(&self.held)
    }
}

impl Held {
    fn forget(&mut self, touched: u64) {
        if let Some(entry) = self.by_touch.remove(&touched).and_then(|key| self.chunks.remove(&key)) {
            self.bytes -= entry.known.bytes();
        }
    }
}

/// Nothing that is done under these locks can panic half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: usize) -> Arc<Known> {
        Known::new(0, Some(vec![0; bytes].into())).into()
    }

    const FILE: FileKey = FileKey(0);

    #[test]
    fn what_was_touched_longest_ago_is_forgotten_first() {
        let chunks = Chunks::new(3000);
        chunks.put(FILE, 1, of(1000));
        chunks.put(FILE, 2, of(1000));
        assert!(chunks.get(FILE, 1).is_some());
        chunks.put(FILE, 3, of(1000));
        let known = [1, 2, 3].map(|offset| chunks.get(FILE, offset).is_some());
        assert_eq!(known, [true, false, true]);
        assert!(chunks.bytes() <= 3000);
    }

    #[test]
    fn what_is_larger_than_all_memory_is_not_kept() {
        let chunks = Chunks::new(500);
        chunks.put(FILE, 1, of(1000));
        assert_eq!((chunks.get(FILE, 1).is_some(), chunks.bytes()), (false, 0));
    }

    #[test]
    fn marks_are_learnt_in_order_and_once() {
        let known = Known::new(64, None);
        let mark = |within| Mark { frame: 0, within };
        assert_eq!(known.nearest(40), (0, mark(0)));
        for (record, within) in [(0, 0), (16, 160), (48, 480), (16, 999)] {
            known.learn(record, mark(within));
        }
        assert_eq!(known.nearest(15), (0, mark(0)));
        assert_eq!(known.nearest(63), (16, mark(160)));
    }
}
