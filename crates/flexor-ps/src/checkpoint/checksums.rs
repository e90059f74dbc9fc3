//! Checksums of a file while it is written, one per MiB, so that damage can be located to within a MiB.

use std::io::{self, Write};

/// Bytes per checksum; the last one covers the rest.
pub const CHECKSUM_EVERY: usize = 1 << 20;

/// A writer that computes checksums on the way.
pub(super) struct ChecksumWriter<W> {
    to: W,
    bytes: u64,
    checksums: Checksums,
}

/// CRC-32C of the full ranges, and of the range in progress.
#[derive(Default)]
struct Checksums {
    done: Vec<u32>,
    open: u32,
    in_open: usize,
}

impl<W: Write> ChecksumWriter<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, bytes: 0, checksums: Checksums::default() }
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of bytes and their checksums.
    pub(super) fn finish(self) -> (u64, Vec<u32>) {
        (self.bytes, self.checksums.finish())
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.checksums.add(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Checksums {
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

pub(super) fn checksums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(CHECKSUM_EVERY).map(crc32c::crc32c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_the_sizes_of_writes() {
        let bytes: Vec<u8> = (0..3 * CHECKSUM_EVERY + 17).map(|i| (i * 7 % 251) as u8).collect();
        for piece in [1 << 10, CHECKSUM_EVERY - 1, CHECKSUM_EVERY, CHECKSUM_EVERY * 2] {
            let mut writer = ChecksumWriter::new(io::sink());
            bytes.chunks(piece).for_each(|piece| writer.write_all(piece).unwrap());
            assert_eq!(writer.finish(), (bytes.len() as u64, checksums_of(&bytes)));
        }
        assert_eq!(checksums_of(&[]), [0; 0]);
    }
}
