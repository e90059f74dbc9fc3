//! Any bytes are read as far as they go: no record is had that is not there, and what a range gives hangs neither on what
//! was read before nor on where it begins.
#![no_main]

use flexor_data::recordio::{ChunkCache, FileKey, Index};
use libfuzzer_sys::fuzz_target;

const FILE: FileKey = FileKey(0);
/// ChunkCache of records without bytes can promise far more records than an input has bytes.
const MOST: u64 = 2_000;

fuzz_target!(|bytes: &[u8]| {
    let index = Index::of(&bytes).expect("memory can be read");
    let records = index.records().min(MOST);
    let kept = ChunkCache::new(1 << 20);
    // Backwards one by one, from a memory that knows more and more.
    let alone: Vec<Option<Vec<u8>>> = (0..records)
        .rev()
        .map(|number| {
            let mut found = None;
            let read =
                index.read(&bytes, (&kept, FILE), number..number + 1, &mut |_, record| found = Some(record.to_vec()));
            assert_eq!(read.is_ok(), found.is_some());
            found
        })
        .collect();
    // Forwards in one go, from what is lost to the next chunk.
    let fresh = ChunkCache::new(0);
    let mut next = 0;
    while next < records {
        let read = index.read(&bytes, (&fresh, FILE), next..records, &mut |number, record| {
            assert_eq!(number, next);
            assert_eq!(alone[(records - 1 - number) as usize].as_deref(), Some(record));
            next += 1;
        });
        let Err(error) = read else { break };
        assert!(error.from == next && error.lost.contains(&next));
        while next < records.min(error.lost.end) {
            assert_eq!(alone[(records - 1 - next) as usize], None);
            next += 1;
        }
    }
});
