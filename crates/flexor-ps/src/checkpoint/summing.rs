//! Checksums of a file while it is written, one for each MiB: so that damage can be told to within a MiB.

use std::io::{self, Write};

/// How many bytes a checksum is for; the last one is for the rest.
pub const CHECKSUM_EVERY: usize = 1 << 20;

/// Bytes on their way into a file.
pub(super) struct Summing<W> {
    to: W,
    bytes: u64,
    sums: Sums,
}

/// Checksums, CRC-32C.
#[derive(Default)]
struct Sums {
    done: Vec<u32>,
    open: u32,
    in_open: usize,
}

impl<W: Write> Summing<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, bytes: 0, sums: Sums::default() }
    }

    /// How many bytes were written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes there were, and their checksums.
    pub(super) fn finish(self) -> (u64, Vec<u32>) {
        (self.bytes, self.sums.finish())
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sums.add(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Sums {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHECKSUM_EVERY - self.in_open));
            self.open = crc32c::crc32c_append(self.open, now);
            self.in_open += now.len();
            if self.in_open == CHECKSUM_EVERY {
                self.done.push(self.open);
                (self.open, self.in_open) = (0, 0);
            }
            bytes = later;
        }
    }

    fn finish(mut self) -> Vec<u32> {
        if self.in_open > 0 {
            self.done.push(self.open);
        }
        self.done
    }
}

/// The checksums of bytes.
pub(super) fn sums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(CHECKSUM_EVERY).map(crc32c::crc32c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_how_bytes_come() {
        let bytes: Vec<u8> = (0..3 * CHECKSUM_EVERY + 17).map(|i| (i * 7 % 251) as u8).collect();
        for piece in [1 << 10, CHECKSUM_EVERY - 1, CHECKSUM_EVERY, CHECKSUM_EVERY * 2] {
            let mut summing = Summing::new(io::sink());
            bytes.chunks(piece).for_each(|piece| summing.write_all(piece).unwrap());
            assert_eq!(summing.finish(), (bytes.len() as u64, sums_of(&bytes)));
        }
        assert_eq!(sums_of(&[]), [0; 0]);
    }
}
