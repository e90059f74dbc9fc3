//! A cache of chunk indexes: the fewest bytes that make the next range cheap.
//!
//! For each chunk it holds a [`Mark`] at every sixteenth record, as far as a reader has come. For gzip, which cannot be
//! entered in the middle, it holds the decompressed bytes. The least recently used chunks are evicted. After an
//! eviction the next read checks the checksum again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::payload::Mark;

/// Records per mark.
pub(super) const STRIDE: u32 = 16;

/// A file among those that share a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey(pub u32);

/// The cached index of a chunk with a correct checksum.
#[derive(Debug)]
pub(super) struct CachedChunk {
    /// The positions of the records 0, 16, 32 and so on, as far as a reader has come.
    marks: Mutex<Vec<Mark>>,
    /// The decompressed bytes of a gzip chunk.
    unpacked: Option<Arc<[u8]>>,
    /// The number of marks of a complete index.
    most_marks: usize,
}

impl CachedChunk {
    /// An empty index of a chunk with a correct checksum.
    pub(super) fn new(records: u32, unpacked: Option<Arc<[u8]>>) -> Self {
        Self { marks: Mutex::default(), unpacked, most_marks: records.div_ceil(STRIDE) as usize }
    }

    /// The decompressed bytes of a gzip chunk.
    pub(super) fn unpacked(&self) -> Option<Arc<[u8]>> {
        self.unpacked.clone()
    }

    /// The last mark at or before a record, and its record.
    pub(super) fn nearest(&self, record: u32) -> (u32, Mark) {
        let marks = locked(&self.marks);
        let at = (record / STRIDE).min((marks.len() as u32).saturating_sub(1));
        (at * STRIDE, marks.get(at as usize).copied().unwrap_or_default())
    }

    /// Adds the mark of a record. Marks come in order; a known mark changes nothing.
    pub(super) fn add_mark(&self, record: u32, mark: Mark) {
        let mut marks = locked(&self.marks);
        if marks.len() == (record / STRIDE) as usize {
            marks.push(mark);
        }
    }

    fn bytes(&self) -> usize {
        // An entry has a cost even without marks.
        let unpacked = self.unpacked.as_ref().map_or(0, |bytes| bytes.len());
        128 + self.most_marks * size_of::<Mark>() + unpacked
    }
}

/// The cache, shared by the files of a dataset and by all threads that read it.
#[derive(Debug)]
pub struct ChunkCache {
    budget: usize,
    held: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    chunks: HashMap<(FileKey, u64), Entry>,
    /// The least recently used first.
    by_touch: BTreeMap<u64, (FileKey, u64)>,
    bytes: usize,
    touches: u64,
}

#[derive(Debug)]
struct Entry {
    known: Arc<CachedChunk>,
    touched: u64,
}

impl ChunkCache {
    /// A cache of about `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Self { budget, held: Mutex::default() }
    }

    /// The cached bytes.
    pub fn bytes(&self) -> usize {
        self.locked().bytes
    }

    /// The cached index of the chunk at `offset`.
    pub(super) fn get(&self, file: FileKey, offset: u64) -> Option<Arc<CachedChunk>> {
        let mut held = self.locked();
        let held = &mut *held;
        let entry = held.chunks.get_mut(&(file, offset))?;
        held.by_touch.remove(&entry.touched);
        held.touches += 1;
        entry.touched = held.touches;
        held.by_touch.insert(entry.touched, (file, offset));
        Some(Arc::clone(&entry.known))
    }

    /// Caches an index, and evicts others if needed.
    pub(super) fn put(&self, file: FileKey, offset: u64, known: Arc<CachedChunk>) {
        let cost = known.bytes();
        if cost > self.budget {
            return;
        }
        let mut held = self.locked();
        if let Some(entry) = held.chunks.get(&(file, offset)) {
            let touched = entry.touched;
            held.evict(touched);
        }
        held.touches += 1;
        let touched = held.touches;
        held.chunks.insert((file, offset), Entry { known, touched });
        held.by_touch.insert(touched, (file, offset));
        held.bytes += cost;
        while held.bytes > self.budget
            && let Some((&oldest, _)) = held.by_touch.first_key_value()
        {
            held.evict(oldest);
        }
    }

    fn locked(&self) -> MutexGuard<'_, CacheState> {
        locked(&self.held)
    }
}

impl CacheState {
    fn evict(&mut self, touched: u64) {
        if let Some(entry) = self.by_touch.remove(&touched).and_then(|key| self.chunks.remove(&key)) {
            self.bytes -= entry.known.bytes();
        }
    }
}

/// Nothing under these locks can panic half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: usize) -> Arc<CachedChunk> {
        CachedChunk::new(0, Some(vec![0; bytes].into())).into()
    }

    const FILE: FileKey = FileKey(0);

    #[test]
    fn the_least_recently_used_chunk_is_evicted_first() {
        let chunks = ChunkCache::new(3000);
        chunks.put(FILE, 1, of(1000));
        chunks.put(FILE, 2, of(1000));
        assert!(chunks.get(FILE, 1).is_some());
        chunks.put(FILE, 3, of(1000));
        let known = [1, 2, 3].map(|offset| chunks.get(FILE, offset).is_some());
        assert_eq!(known, [true, false, true]);
        assert!(chunks.bytes() <= 3000);
    }

    #[test]
    fn a_chunk_larger_than_the_cache_is_not_cached() {
        let chunks = ChunkCache::new(500);
        chunks.put(FILE, 1, of(1000));
        assert_eq!((chunks.get(FILE, 1).is_some(), chunks.bytes()), (false, 0));
    }

    #[test]
    fn marks_are_added_in_order_and_once() {
        let known = CachedChunk::new(64, None);
        let mark = |within| Mark { frame: 0, within };
        assert_eq!(known.nearest(40), (0, mark(0)));
        for (record, within) in [(0, 0), (16, 160), (48, 480), (16, 999)] {
            known.add_mark(record, mark(within));
        }
        assert_eq!(known.nearest(15), (0, mark(0)));
        assert_eq!(known.nearest(63), (16, mark(160)));
    }
}
