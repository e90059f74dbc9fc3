//! The header of a chunk: twenty bytes before each payload.

use std::fmt;

use serde::Serialize;

use super::flaw::Flaw;

/// The compression of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compressor {
    /// Uncompressed.
    None,
    /// Snappy, in its framing format.
    Snappy,
    Gzip,
}

/// A chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// CRC-32 (IEEE) of the payload as it lies in the file.
    pub checksum: u32,
    /// How the payload is compressed.
    pub compressor: Compressor,
    /// The payload's size in the file.
    pub size: u32,
    /// Records in the chunk.
    pub records: u32,
}

impl Header {
    /// The first bytes of a chunk.
    pub const MAGIC: [u8; 4] = [4, 3, 2, 1];

    /// Bytes of a header.
    pub const LENGTH: usize = 20;

    /// Parses a header.
    ///
    /// # Errors
    ///
    /// The bytes are no header, or its numbers are impossible.
    pub fn read(bytes: &[u8; Self::LENGTH]) -> Result<Self, Flaw> {
        let [magic, checksum, compressor, size, records] = words(bytes);
        if magic != u32::from_le_bytes(Self::MAGIC) {
            return Err(Flaw::Magic { found: magic });
        }
        let compressor = match compressor {
            0 => Compressor::None,
            1 => Compressor::Snappy,
            2 => Compressor::Gzip,
            number => return Err(Flaw::Compressor { number }),
        };
        // Each record takes at least four bytes for its length.
        if u64::from(records) * 4 > u64::from(size) * compressor.most_expansion() {
            return Err(Flaw::Implausible { records, size });
        }
        Ok(Self { checksum, compressor, size, records })
    }

    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&Self::MAGIC);
        let words = [self.checksum, self.compressor.number(), self.size, self.records];
        for (field, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

impl Compressor {
    pub fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Snappy => 1,
            Self::Gzip => 2,
        }
    }

    /// The largest expansion of one byte, rounded up. Snappy copies 64 bytes with three, gzip 258 with two bits.
    fn most_expansion(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Snappy => 32,
            Self::Gzip => 1100,
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Gzip => "gzip",
        })
    }
}

fn words(bytes: &[u8; Header::LENGTH]) -> [u32; 5] {
    let mut words = [0; 5];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a file with four records from pyrecordio 0.0.6.
    const PUBLISHED: [u8; 20] =
        [0x04, 0x03, 0x02, 0x01, 0x25, 0xee, 0x6a, 0x08, 1, 0, 0, 0, 0xbe, 0x12, 0, 0, 4, 0, 0, 0];

    #[test]
    fn a_header_of_the_original_is_understood_and_written_the_same() {
        let header = Header::read(&PUBLISHED).unwrap();
        let expected = Header { checksum: 0x086a_ee25, compressor: Compressor::Snappy, size: 4798, records: 4 };
        assert_eq!(header, expected);
        assert_eq!(header.to_bytes(), PUBLISHED);
    }

    #[test]
    fn bytes_that_are_no_header_are_refused() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = PUBLISHED;
            bytes[at] = byte;
            Header::read(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, 5), Flaw::Magic { found: 0x0102_0305 });
        assert_eq!(changed(8, 3), Flaw::Compressor { number: 3 });
        assert_eq!(changed(19, 0xff), Flaw::Implausible { records: 0xff00_0004, size: 4798 });
    }
}
