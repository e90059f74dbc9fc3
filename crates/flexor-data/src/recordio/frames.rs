//! Snappy's framing format: frames are decompressed only where they are read.
//!
//! A frame's header holds its length, and its first bytes the decompressed length, so skipping it costs nothing.
//! ElasticDL's files have a frame for each length and one or more for each record, so even the way to a far record
//! decompresses nothing. Each frame has a checksum (CRC-32C, masked) of its decompressed content, which is checked
//! whenever the frame is decompressed.

use super::flaw::Flaw;
use super::payload::{Mark, Stop};
use crate::read_at::{ReadAt, Window};

/// The start of a stream, after the head of its frame.
const IDENTIFIER: &[u8] = b"sNaPpY";
/// The largest decompressed frame.
const MOST_DECOMPRESSED: usize = 1 << 16;
/// The longest compressed frame with its checksum; a longer one would be stored uncompressed.
const MOST_COMPRESSED: usize = 76_490 + CHECKSUM;
const HEAD: usize = 4;
const CHECKSUM: usize = 4;

/// A stream of frames.
pub(super) struct Frames<'a> {
    window: Window<'a>,
    start: u64,
    /// The current frame; the window is behind its head.
    frame: Option<Frame>,
    /// The decompressed frame, if it was read.
    block: Vec<u8>,
    decoder: snap::raw::Decoder,
}

struct Frame {
    /// The offset of its head in the payload.
    offset: u32,
    /// The length behind the head.
    length: usize,
    compressed: bool,
    /// The decompressed length.
    size: usize,
    passed: usize,
    is_open: bool,
}

impl<'a> Frames<'a> {
    /// The frames of the payload from `start` to `end`, beginning at a mark.
    pub(super) fn new(source: &'a dyn ReadAt, start: u64, end: u64, from: Mark) -> Result<Self, Stop> {
        let window = Window::new(source, start + u64::from(from.frame), end);
        let mut frames = Self { window, start, frame: None, block: Vec::new(), decoder: snap::raw::Decoder::new() };
        if from.frame == 0 {
            frames.expect_identifier()?;
        }
        frames.skip(from.within)?;
        Ok(frames)
    }

    /// The current position.
    pub(super) fn mark(&self) -> Mark {
        match &self.frame {
            Some(frame) if frame.passed < frame.size => Mark { frame: frame.offset, within: frame.passed as u32 },
            Some(frame) if !frame.is_open => Mark { frame: frame.offset, within: frame.size as u32 },
            Some(_) | None => Mark { frame: (self.window.position() - self.start) as u32, within: 0 },
        }
    }

    /// Skips decompressed bytes.
    pub(super) fn skip(&mut self, mut count: u32) -> Result<(), Stop> {
        while count > 0 {
            let frame = self.frame()?;
            let step = count.min((frame.size - frame.passed) as u32);
            frame.passed += step as usize;
            count -= step;
        }
        Ok(())
    }

    /// Appends decompressed bytes to `into`.
    pub(super) fn read(&mut self, count: u32, into: &mut Vec<u8>) -> Result<(), Stop> {
        let mut left = count as usize;
        while left > 0 {
            self.frame()?;
            self.open()?;
            let Some(frame) = &mut self.frame else { continue };
            let step = left.min(frame.size - frame.passed);
            into.extend_from_slice(&self.block[frame.passed..frame.passed + step]);
            frame.passed += step;
            left -= step;
        }
        Ok(())
    }

    /// The frame with the next byte.
    fn frame(&mut self) -> Result<&mut Frame, Stop> {
        while self.frame.as_ref().is_none_or(|frame| frame.passed == frame.size) {
            if let Some(done) = self.frame.take()
                && !done.is_open
            {
                self.window.skip(done.length as u64)?;
            }
            self.frame = self.next_frame()?;
        }
        Ok(self.frame.as_mut().expect("the loop ends with a frame"))
    }

    /// Reads the head of the next frame; `None` for a frame without data.
    fn next_frame(&mut self) -> Result<Option<Frame>, Stop> {
        let offset = (self.window.position() - self.start) as u32;
        let (kind, length) = self.head()?;
        let size = match kind {
            0x00 if length <= MOST_COMPRESSED => {
                // The size has at most five bytes.
                let seen = self.window.peek(length.min(CHECKSUM + 5))?;
                snap::raw::decompress_len(seen.get(CHECKSUM..).unwrap_or_default()).map_err(broken)?
            }
            0x01 => length.checked_sub(CHECKSUM).ok_or_else(|| broken("a frame without a checksum"))?,
            0xff => {
                self.check_identifier(length)?;
                return Ok(None);
            }
            0x80..=0xfe => {
                self.window.skip(length as u64)?;
                return Ok(None);
            }
            kind => return Err(broken(format!("a frame of {length} bytes and of the kind {kind:#04x}"))),
        };
        if size > MOST_DECOMPRESSED {
            return Err(broken(format!("a frame that decompresses to {size} bytes")));
        }
        Ok(Some(Frame { offset, length, compressed: kind == 0, size, passed: 0, is_open: false }))
    }

    /// Decompresses the frame, if that is not done, and skips it in the file.
    fn open(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.frame.as_mut().filter(|frame| !frame.is_open) else { return Ok(()) };
        let (checksum, data) = self.window.peek(frame.length)?.split_at(CHECKSUM);
        if frame.compressed {
            self.block.resize(frame.size, 0);
            self.decoder.decompress(data, &mut self.block).map_err(broken)?;
        } else {
            self.block.clear();
            self.block.extend_from_slice(data);
        }
        if checksum != masked(crc32c::crc32c(&self.block)).to_le_bytes() {
            return Err(broken(format!("the checksum of the frame at byte {} of the payload is wrong", frame.offset)));
        }
        frame.is_open = true;
        self.window.skip(frame.length as u64)?;
        Ok(())
    }

    fn expect_identifier(&mut self) -> Result<(), Stop> {
        match self.head()? {
            (0xff, length) => self.check_identifier(length),
            _ => Err(broken("it does not begin with snappy's stream identifier")),
        }
    }

    fn check_identifier(&mut self, length: usize) -> Result<(), Stop> {
        if length != IDENTIFIER.len() || self.window.peek(length)? != IDENTIFIER {
            return Err(broken("a stream identifier that is not snappy's"));
        }
        Ok(self.window.skip(length as u64)?)
    }

    /// Reads the head of a frame: its kind and the length behind it.
    fn head(&mut self) -> Result<(u8, usize), Stop> {
        let head = self.window.peek(HEAD)?;
        let found = (head[0], u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize);
        self.window.skip(HEAD as u64)?;
        Ok(found)
    }
}

/// Masks a checksum as the framing format does, so that checksums of data with checksums stay strong.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn broken(what: impl ToString) -> Stop {
    Stop::Flaw(Flaw::Compressed(what.to_string()))
}
