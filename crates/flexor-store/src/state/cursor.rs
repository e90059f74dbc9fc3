//! Reads the pickle byte by byte, knows where its frames end and which instruction is being read.
//!
//! Frames exist so that a pickle can be read from a file in large pieces and mean nothing here, but an instruction
//! that crosses the end of one is a sign of damage, and Python's own readers disagree about it.

use super::opcode;
use super::refused::{Refused, quoted};

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    next: usize,
    /// Where the current frame ends; behind `next` when there is none.
    frame_end: usize,
    /// Where the current instruction begins, how far it may reach, and what it is called.
    at: usize,
    bound: usize,
    opcode: &'static str,
}

impl<'a> Cursor<'a> {
    /// Past the header of a pickle of protocol 4 or 5.
    pub(super) fn of_pickle(bytes: &'a [u8]) -> Result<Self, Refused> {
        match bytes {
            [opcode::PROTO, 4 | 5, ..] => {
                Ok(Self { bytes, next: 2, frame_end: 0, at: 0, bound: bytes.len(), opcode: "PROTO" })
            }
            _ => Err(Refused::NotPickle { begin: bytes.iter().copied().take(2).collect() }),
        }
    }

    /// The next instruction.
    pub(super) fn opcode(&mut self) -> Result<u8, Refused> {
        self.at = self.next;
        self.bound = if self.next < self.frame_end { self.frame_end } else { self.bytes.len() };
        self.opcode = "an instruction";
        let byte = self.byte()?;
        match opcode::name(byte) {
            Some(name) => self.opcode = name,
            None => return Err(Refused::Opcode { at: self.at, opcode: format!("{byte:#04x}") }),
        }
        Ok(byte)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        if count > self.bound - self.next {
            return Err(if self.bound < self.bytes.len() {
                Refused::Frame { at: self.at, opcode: self.opcode }
            } else {
                Refused::CutOff { at: self.at, opcode: self.opcode }
            });
        }
        let taken = &self.bytes[self.next..self.next + count];
        self.next += count;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Refused> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    /// Begins the frame that a `FRAME` instruction announces.
    pub(super) fn frame(&mut self) -> Result<(), Refused> {
        let length = u64::from_le_bytes(self.array()?);
        if self.next < self.frame_end {
            return Err(Refused::Frame { at: self.at, opcode: self.opcode });
        }
        let rest = self.bytes.len() - self.next;
        match usize::try_from(length) {
            Ok(length) if length <= rest => self.frame_end = self.next + length,
            _ => return Err(Refused::CutOff { at: self.at, opcode: self.opcode }),
        }
        Ok(())
    }

    /// The refusal of the class that a `GLOBAL` instruction names in two lines.
    pub(super) fn refused_global(&self) -> Refused {
        let mut lines = self.bytes[self.next..].split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
        let (module, name) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        self.refused_class(&module, &name)
    }

    pub(super) fn refused_class(&self, module: &str, name: &str) -> Refused {
        Refused::Class { at: self.at, path: format!("{}.{}", quoted(module), quoted(name)) }
    }

    pub(super) fn refused_opcode(&self) -> Refused {
        Refused::Opcode { at: self.at, opcode: self.opcode.to_owned() }
    }

    pub(super) fn refused_operand(&self, wanted: &'static str, met: impl Into<String>) -> Refused {
        Refused::Operand { at: self.at, opcode: self.opcode, wanted, met: met.into() }
    }

    pub(super) fn too_many_nodes(&self) -> Refused {
        Refused::TooManyNodes { at: self.at }
    }

    pub(super) fn too_much(&self, limit: usize, what: &'static str) -> Refused {
        Refused::TooMuch { at: self.at, opcode: self.opcode, limit, what }
    }

    /// How many bytes have not been read.
    pub(super) fn rest(&self) -> usize {
        self.bytes.len() - self.next
    }
}
