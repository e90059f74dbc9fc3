//! Writes one file of an IDX pair.

use std::io::{self, BufWriter, Write};

use super::part::Part;

/// Writes items of equal length.
#[derive(Debug)]
pub struct IdxWriter<W: Write> {
    out: BufWriter<W>,
    item: usize,
    left: u32,
}

impl<W: Write> IdxWriter<W> {
    /// Starts a file with this many items.
    ///
    /// # Errors
    ///
    /// The output fails.
    pub fn new(out: W, part: Part, count: u32) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        let item = match part {
            Part::Images { rows, columns } => {
                out.write_all(&[0, 0, 8, 3])?;
                out.write_all(&count.to_be_bytes())?;
                out.write_all(&rows.to_be_bytes())?;
                out.write_all(&columns.to_be_bytes())?;
                rows as usize * columns as usize
            }
            Part::Labels => {
                out.write_all(&[0, 0, 8, 1])?;
                out.write_all(&count.to_be_bytes())?;
                1
            }
        };
        Ok(Self { out, item, left: count })
    }

    /// Adds an item.
    ///
    /// # Errors
    ///
    /// Its length is wrong, the file has all its items, or the output fails.
    pub fn write(&mut self, item: &[u8]) -> io::Result<()> {
        if item.len() != self.item || self.left == 0 {
            let why = format!("an item of {} bytes where {} of {} are left to write", item.len(), self.left, self.item);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.left -= 1;
        self.out.write_all(item)
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// Items are missing, or the output fails.
    pub fn finish(self) -> io::Result<W> {
        if self.left > 0 {
            return Err(io::Error::other(format!("{} items are missing", self.left)));
        }
        self.out.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
