//! SHA-256 digests in the form of the OCI specification, of bytes and of streams.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(Sha256::new_with_prefix(bytes))
    }

    /// The digits alone, which are the name of a blob in a layout.
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(_, hex)| hex)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_hash(hash: Sha256) -> Self {
        let mut text = String::from("sha256:");
        for byte in hash.finalize() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Passes bytes on, and knows the digest and count of those that went through.
pub(crate) struct Digester<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Digester<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }

    /// What the bytes were written to, their digest, and their count.
    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest::from_hash(self.hash), self.size)
    }
}

impl<W: Write> Write for Digester<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_the_digest_of_its_bytes() {
        let mut digester = Digester::new(Vec::new());
        digester.write_all(b"ab").unwrap();
        digester.write_all(b"c").unwrap();
        let (bytes, digest, size) = digester.finish();
        assert_eq!((bytes.as_slice(), size), (b"abc".as_slice(), 3));
        assert_eq!(digest, Digest::of(b"abc"));
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
