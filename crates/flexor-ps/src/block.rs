//! Blocks of bytes with a checksum: the framing of table files and of partitions on the wire.
//!
//! Format: `length: u32, kind: u32, checksum: u32`, then `length` bytes. The checksum is CRC-32C of length, kind and
//! bytes. A damaged block is rejected as a whole. This module does not interpret the contents.

use thiserror::Error;

use crate::little_endian::Reader;

/// Bytes of length, kind and checksum before the contents.
pub(crate) const HEAD_BYTES: usize = 12;
/// The most bytes of contents that a reader accepts.
pub(crate) const MAX_BLOCK: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) kind: u32,
    pub(crate) bytes: &'a [u8],
}

/// Bytes that are no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockError {
    #[error("the data ends in the middle of a block")]
    Short,
    /// The length exceeds [`MAX_BLOCK`].
    #[error("a block of {0} bytes is longer than any block that is written; the length is damaged")]
    TooLong(u32),
    #[error("a block's checksum is {found:08x} and not {wanted:08x}; its bytes are damaged")]
    Checksum { wanted: u32, found: u32 },
}

/// Appends a block.
pub(crate) fn put(out: &mut Vec<u8>, kind: u32, bytes: &[u8]) {
    put_with(out, |out| {
        out.extend_from_slice(bytes);
        kind
    });
}

/// Appends a block whose contents `write` appends in place. `write` returns the kind.
pub(crate) fn put_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> u32) {
    let start = out.len();
    out.extend([0; HEAD_BYTES]);
    let kind = write(out);
    let (head, bytes) = out[start..].split_at_mut(HEAD_BYTES);
    debug_assert!(bytes.len() <= MAX_BLOCK, "a block of {} bytes could not be read", bytes.len());
    head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    head[4..8].copy_from_slice(&kind.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head[..8]), bytes);
    head[8..].copy_from_slice(&checksum.to_le_bytes());
}

/// The size of the block at the start of `bytes`, header included.
pub(crate) fn size(bytes: &[u8]) -> Result<usize, BlockError> {
    let length = Reader(bytes).u32().ok_or(BlockError::Short)?;
    match length as usize {
        length if length <= MAX_BLOCK => Ok(HEAD_BYTES + length),
        _ => Err(BlockError::TooLong(length)),
    }
}

/// Reads the block at the start of `bytes`. Returns it and the remaining bytes.
pub(crate) fn take(bytes: &[u8]) -> Result<(Block<'_>, &[u8]), BlockError> {
    let size = size(bytes)?;
    let (block, rest) = bytes.split_at_checked(size).ok_or(BlockError::Short)?;
    let (head, content) = block.split_at(HEAD_BYTES);
    let mut fields = Reader(&head[4..]);
    let (kind, wanted) = fields.u32().zip(fields.u32()).ok_or(BlockError::Short)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(&head[..8]), content);
    match found == wanted {
        true => Ok((Block { kind, bytes: content }, rest)),
        false => Err(BlockError::Checksum { wanted, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, 3, b"rows of a table");
        put(&mut bytes, 4, b"");
        bytes
    }

    #[test]
    fn blocks_read_back_as_they_were_written() {
        let bytes = written();
        let (first, rest) = take(&bytes).unwrap();
        assert_eq!(first, Block { kind: 3, bytes: b"rows of a table" });
        let (second, rest) = take(rest).unwrap();
        assert_eq!((second, rest.len()), (Block { kind: 4, bytes: b"" }, 0));
        assert_eq!(take(rest), Err(BlockError::Short));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let bytes = written();
        let (_, rest) = take(&bytes).unwrap();
        for bit in 0..8 * (bytes.len() - rest.len()) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(take(&damaged).is_err(), "bit {bit}");
        }
    }
}
