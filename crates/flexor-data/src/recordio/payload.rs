//! A payload as a stream of decompressed bytes that can be entered in the middle.

use std::io;
use std::sync::Arc;

use super::flaw::Flaw;
use super::frames::Frames;
use super::header::Compressor;
use super::index::Chunk;
use crate::read_at::{ReadAt, Window, WindowError};

/// A position in a payload where reading can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// The offset of a snappy frame in the payload; 0 for other compressors.
    pub(super) frame: u32,
    /// Decompressed bytes from there.
    pub(super) within: u32,
}

/// Why a payload cannot be read further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The payload has ended.
    End,
    Flaw(Flaw),
    Io(io::Error),
}

/// The decompressed bytes of a chunk.
pub(super) enum Payload<'a> {
    /// Read from the file.
    Plain { window: Window<'a>, start: u64 },
    /// Decompressed frame by frame.
    Snappy(Frames<'a>),
    /// Decompressed before, all at once.
    Unpacked { bytes: Arc<[u8]>, passed: usize },
}

impl<'a> Payload<'a> {
    /// The payload of a chunk, from a mark on.
    ///
    /// A gzip payload must be unpacked before: it cannot be entered in the middle.
    pub(super) fn new(
        source: &'a dyn ReadAt,
        chunk: &Chunk,
        unpacked: Option<Arc<[u8]>>,
        from: Mark,
    ) -> Result<Self, Stop> {
        let (start, end) = (chunk.payload(), chunk.end());
        let mut payload = match (chunk.header.compressor, unpacked) {
            (Compressor::Snappy, _) => return Frames::new(source, start, end, from).map(Self::Snappy),
            (Compressor::None | Compressor::Gzip, Some(bytes)) => Self::Unpacked { bytes, passed: 0 },
            (Compressor::None | Compressor::Gzip, None) => {
                Self::Plain { window: Window::new(source, start, end), start }
            }
        };
        payload.skip(from.within)?;
        Ok(payload)
    }

    /// The current position.
    pub(super) fn mark(&self) -> Mark {
        match self {
            Self::Plain { window, start } => Mark { frame: 0, within: (window.position() - start) as u32 },
            Self::Snappy(frames) => frames.mark(),
            Self::Unpacked { passed, .. } => Mark { frame: 0, within: *passed as u32 },
        }
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, count: u32) -> Result<(), Stop> {
        match self {
            Self::Plain { window, .. } => Ok(window.skip(u64::from(count))?),
            Self::Snappy(frames) => frames.skip(count),
            Self::Unpacked { bytes, passed } => {
                *passed = passed.checked_add(count as usize).filter(|end| *end <= bytes.len()).ok_or(Stop::End)?;
                Ok(())
            }
        }
    }

    /// Appends bytes to `into`.
    pub(super) fn read(&mut self, count: u32, into: &mut Vec<u8>) -> Result<(), Stop> {
        match self {
            Self::Plain { window, .. } => {
                into.extend_from_slice(window.peek(count as usize)?);
                Ok(window.skip(u64::from(count))?)
            }
            Self::Snappy(frames) => frames.read(count, into),
            Self::Unpacked { bytes, passed } => {
                let there = bytes.get(*passed..).and_then(|left| left.get(..count as usize)).ok_or(Stop::End)?;
                into.extend_from_slice(there);
                *passed += count as usize;
                Ok(())
            }
        }
    }
}

impl From<WindowError> for Stop {
    fn from(error: WindowError) -> Self {
        match error {
            WindowError::End => Self::End,
            WindowError::Io(error) => Self::Io(error),
        }
    }
}
