//! The byte format of one record.
//!
//! `u32 length | u32 crc32 | u8 kind | payload`, little-endian. The length counts kind and payload. The checksum covers
//! length, kind and payload, so every changed bit is detected. Payloads belong to the caller.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The complete state; the first record of a segment, and only the first.
    Snapshot = 1,
    /// One fact since the snapshot.
    Fact = 2,
}

/// The longest payload whose length fits its field.
pub(super) const MAX_PAYLOAD: usize = u32::MAX as usize - 1;

const PREFIX: usize = 8;
/// How many bytes [`search`] checksums in vain at most; bounds the time for made-up bytes.
const SEARCH_BYTES: usize = 64 << 20;

/// The size of a record with this payload.
pub(super) fn size(payload: &[u8]) -> usize {
    PREFIX + 1 + payload.len()
}

/// Appends a record to `out`. The payload is at most [`MAX_PAYLOAD`] long.
pub(super) fn put(out: &mut Vec<u8>, kind: Kind, payload: &[u8]) {
    debug_assert!(payload.len() <= MAX_PAYLOAD, "callers refuse longer payloads");
    let length = (payload.len() as u32 + 1).to_le_bytes();
    let mut crc = crc32fast::Hasher::new();
    crc.update(&length);
    crc.update(&[kind as u8]);
    crc.update(payload);
    out.reserve(size(payload));
    out.extend_from_slice(&length);
    out.extend_from_slice(&crc.finalize().to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(payload);
}

/// Kind and payload of the record at the start of `bytes`, if it is valid.
pub(super) fn take(bytes: &[u8]) -> Option<(Kind, &[u8])> {
    let (kind, payload) = outline(bytes)?;
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, _) = rest.split_first_chunk::<4>()?;
    let mut computed = crc32fast::Hasher::new();
    computed.update(length);
    computed.update(&[kind as u8]);
    computed.update(payload);
    (computed.finalize() == u32::from_le_bytes(*crc)).then_some((kind, payload))
}

/// The records behind a bad one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Behind<'a> {
    pub(super) records: Vec<(Kind, &'a [u8])>,
    /// The search stopped at its bound: more records may follow.
    pub(super) given_up: bool,
}

impl Behind<'_> {
    pub(super) fn may_hold_records(&self) -> bool {
        self.given_up || !self.records.is_empty()
    }
}

/// The valid records that begin anywhere in `bytes`, as far as a bounded search finds.
pub(super) fn search(bytes: &[u8]) -> Behind<'_> {
    let mut behind = Behind::default();
    let (mut start, mut left) = (0, SEARCH_BYTES);
    while start < bytes.len() {
        let rest = &bytes[start..];
        start += 1;
        let Some((_, payload)) = outline(rest) else { continue };
        if let Some(found) = take(rest) {
            behind.records.push(found);
            start += size(payload) - 1;
            continue;
        }
        match left.checked_sub(payload.len()) {
            Some(less) => left = less,
            None => return Behind { given_up: true, ..behind },
        }
    }
    behind
}

/// Whether the bytes can be one record at most: its length reaches the end, or there is no room for a length.
pub(super) fn is_one_at_most(bytes: &[u8]) -> bool {
    bytes
        .first_chunk::<4>()
        .is_none_or(|length| PREFIX as u64 + u64::from(u32::from_le_bytes(*length)) >= bytes.len() as u64)
}

/// The record at the start of `bytes`, without a check of its checksum.
fn outline(bytes: &[u8]) -> Option<(Kind, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let body = rest.get(4..)?.get(..u32::from_le_bytes(*length) as usize)?;
    let (kind, payload) = body.split_first()?;
    let kind = match kind {
        1 => Kind::Snapshot,
        2 => Kind::Fact,
        _ => return None,
    };
    Some((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_no_prefix_of_it_does() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Fact, b"lease 7");
        assert_eq!(bytes.len(), size(b"lease 7"));
        assert_eq!(take(&bytes), Some((Kind::Fact, &b"lease 7"[..])));
        assert!((0..bytes.len()).all(|length| take(&bytes[..length]).is_none()));
    }

    #[test]
    fn every_changed_bit_is_seen() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Snapshot, b"state");
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(take(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn zeros_hold_no_record() {
        assert_eq!(search(&[0; 4096]), Behind::default());
    }

    #[test]
    fn the_search_finds_a_record_behind_rubbish_and_gives_up_on_made_up_lengths() {
        let mut bytes = vec![0xAB; 100];
        put(&mut bytes, Kind::Fact, b"");
        bytes.push(0xAB);
        put(&mut bytes, Kind::Fact, b"second");
        assert_eq!(search(&bytes).records, [(Kind::Fact, &b""[..]), (Kind::Fact, b"second")]);
        // Every ninth byte pretends to begin a record that reaches almost to the end.
        let pretender: Vec<u8> = (0..1 << 20).map(|at| [0, 0, 8, 0, 0, 0, 0, 0, 1][at % 9]).collect();
        let found = search(&pretender);
        assert!(found.given_up && found.records.is_empty() && found.may_hold_records());
    }
}
