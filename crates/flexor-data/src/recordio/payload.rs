//! A payload as a stream of decompressed bytes that can be begun in its middle.

use std::io;
use std::sync::Arc;

use super::flaw::Flaw;
use super::frames::Frames;
use super::header::Compressor;
use super::index::Chunk;
use crate::read_at::{ReadAt, Window, WindowError};

/// A place in a payload from which reading can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Where a frame of snappy begins, in the file; 0 for other compressors.
    pub(super) frame: u32,
    /// How many decompressed bytes later, from there.
    pub(super) within: u32,
}

/// Why a payload does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is over.
    End,
    /// It is damaged.
    Flaw(Flaw),
    /// The file cannot be read.
    Io(io::Error),
}

/// The decompressed bytes of a chunk.
pub(super) enum Payload<'a> {
    /// They lie in the file.
    Plain { window: Window<'a>, start: u64 },
    /// They are made frame by frame.
    Snappy(Frames<'a>),
    /// They have been made before, all at once.
    Unpacked { bytes: Arc<[u8]>, passed: usize },
}

impl<'a> Payload<'a> {
    /// The payload of a chunk, beginning at a mark.
    ///
    /// That of gzip must have been unpacked: it cannot be begun in its middle.
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

    /// Where it stands.
    pub(super) fn mark(&self) -> Mark {
        match self {
            Self::Plain { window, start } => Mark { frame: 0, within: (window.position() - start) as u32 },
            Self::Snappy(frames) => frames.mark(),
            Self::Unpacked { passed, .. } => Mark { frame: 0, within: *passed as u32 },
        }
    }

    /// Passes bytes.
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

    /// Appends bytes.
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
