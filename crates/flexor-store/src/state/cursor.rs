//! Reads the pickle byte by byte, and tracks its frames and the current instruction.
//!
//! Frames let Python read a pickle from a file in large pieces and mean nothing here. But an instruction that crosses the
//! end of a frame is a sign of damage, and Python's own readers treat it differently.

use super::error::{StateError, quoted};
use super::opcode;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    next: usize,
    /// The end of the current frame; before `next` if there is none.
    frame_end: usize,
    /// The start of the current instruction, its limit, and its name.
    at: usize,
    bound: usize,
    opcode: &'static str,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor after the header of a pickle of protocol 4 or 5.
    pub(super) fn of_pickle(bytes: &'a [u8]) -> Result<Self, StateError> {
        match bytes {
            [opcode::PROTO, 4 | 5, ..] => {
                Ok(Self { bytes, next: 2, frame_end: 0, at: 0, bound: bytes.len(), opcode: "PROTO" })
            }
            _ => Err(StateError::NotPickle { begin: bytes.iter().copied().take(2).collect() }),
        }
    }

    /// The next instruction.
    pub(super) fn opcode(&mut self) -> Result<u8, StateError> {
        self.at = self.next;
        self.bound = if self.next < self.frame_end { self.frame_end } else { self.bytes.len() };
        self.opcode = "an instruction";
        let byte = self.byte()?;
        match opcode::name(byte) {
            Some(name) => self.opcode = name,
            None => return Err(StateError::Opcode { at: self.at, opcode: format!("{byte:#04x}") }),
        }
        Ok(byte)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        if count > self.bound - self.next {
            return Err(if self.bound < self.bytes.len() {
                StateError::Frame { at: self.at, opcode: self.opcode }
            } else {
                StateError::CutOff { at: self.at, opcode: self.opcode }
            });
        }
        let taken = &self.bytes[self.next..self.next + count];
        self.next += count;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, StateError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Begins the frame of a `FRAME` instruction.
    pub(super) fn frame(&mut self) -> Result<(), StateError> {
        let length = u64::from_le_bytes(self.array()?);
        if self.next < self.frame_end {
            return Err(StateError::Frame { at: self.at, opcode: self.opcode });
        }
        let rest = self.bytes.len() - self.next;
        match usize::try_from(length) {
            Ok(length) if length <= rest => self.frame_end = self.next + length,
            _ => return Err(StateError::CutOff { at: self.at, opcode: self.opcode }),
        }
        Ok(())
    }

    /// The error for the class that a `GLOBAL` instruction names in two lines.
    pub(super) fn refused_global(&self) -> StateError {
        let mut lines = self.bytes[self.next..].split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        let (module, name) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        self.refused_class(&module, &name)
    }

    pub(super) fn refused_class(&self, module: &str, name: &str) -> StateError {
        StateError::Class { at: self.at, path: format!("{}.{}", quoted(module), quoted(name)) }
    }

    pub(super) fn refused_opcode(&self) -> StateError {
        StateError::Opcode { at: self.at, opcode: self.opcode.to_owned() }
    }

    pub(super) fn refused_operand(&self, expected: &'static str, found: impl Into<String>) -> StateError {
        StateError::Operand { at: self.at, opcode: self.opcode, expected, found: found.into() }
    }

    pub(super) fn too_many_nodes(&self) -> StateError {
        StateError::TooManyNodes { at: self.at }
    }

    pub(super) fn too_much(&self, limit: usize, what: &'static str) -> StateError {
        StateError::TooMuch { at: self.at, opcode: self.opcode, limit, what }
    }

    /// The number of unread bytes.
    pub(super) fn rest(&self) -> usize {
        self.bytes.len() - self.next
    }
}
