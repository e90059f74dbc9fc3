//! Outgoing bytes: small pieces are joined, large values are shared with the store and never copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Values from this size on are shared. Below it, a copy costs less than another slice to send.
const SHARED_FROM: usize = 1 << 10;

/// A queue of bytes that can be sent with few system calls.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Complete pieces, before the tail.
    front: VecDeque<Bytes>,
    /// Joins small pieces.
    tail: BytesMut,
    len: usize,
}

impl Chunks {
    /// Adds a copy of some bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds bytes, which are shared if they are large.
    pub fn push_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_FROM {
            return self.push(&bytes);
        }
        self.close_tail();
        self.len += bytes.len();
        self.front.push_back(bytes);
    }

    /// Adds all bytes of another queue.
    pub fn append(&mut self, mut other: Chunks) {
        if self.is_empty() {
            *self = other;
            return;
        }
        if !other.front.is_empty() {
            self.close_tail();
            self.len += other.len - other.tail.len();
            self.front.append(&mut other.front);
        }
        self.push(&other.tail);
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes as slices.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.front.iter().map(|piece| &piece[..]).chain([&self.tail[..]]);
        all.filter(|piece| !piece.is_empty())
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.front.push_back(std::mem::take(&mut self.tail).freeze());
        }
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.front.front().map_or(&self.tail[..], |piece| &piece[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(self.pieces()) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "{count} bytes taken from a queue of {}", self.len);
        self.len -= count;
        while let Some(piece) = self.front.front_mut() {
            if count < piece.len() {
                return piece.advance(count);
            }
            count -= piece.len();
            self.front.pop_front();
        }
        self.tail.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_the_order_they_went_in_whatever_their_size() {
        let large = Bytes::from(vec![b'L'; SHARED_FROM]);
        let mut chunks = Chunks::default();
        chunks.push(b"one ");
        chunks.push_shared(large.clone());
        chunks.push_shared(Bytes::from_static(b" two "));
        let mut more = Chunks::default();
        more.push(b"three ");
        more.push_shared(large.clone());
        more.push(b" four");
        chunks.append(more);

        let expected = [&b"one "[..], &large, b" two three ", &large, b" four"].concat();
        assert_eq!(chunks.len(), expected.len());
        let mut slices = [IoSlice::new(&[]); 8];
        let count = chunks.chunks_vectored(&mut slices);
        assert_eq!(slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>(), expected);
        for step in [1, 3, SHARED_FROM, 2] {
            let before = chunks.len();
            chunks.advance(step);
            assert_eq!(chunks.len(), before - step);
        }
        let rest = chunks.len();
        assert_eq!(chunks.copy_to_bytes(rest), expected[SHARED_FROM + 6..]);
        assert!(chunks.is_empty());
    }

    #[test]
    fn a_large_value_is_shared_and_a_small_one_is_copied() {
        let (large, small) = (Bytes::from(vec![0; SHARED_FROM]), Bytes::from(vec![0; SHARED_FROM - 1]));
        let mut chunks = Chunks::default();
        chunks.push_shared(large.clone());
        assert_eq!(chunks.chunk().as_ptr(), large.as_ptr());
        chunks.advance(large.len());
        chunks.push_shared(small.clone());
        assert_ne!(chunks.chunk().as_ptr(), small.as_ptr());
    }
}
