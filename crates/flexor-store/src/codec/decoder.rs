//! From the bytes of one connection to its requests.

use bytes::Bytes;

use super::layout::Scan;
use super::{DecodeError, Opcode, Request};

/// A buffer up to this size stays for the next request; a larger one goes as soon as it is not needed.
const KEPT_CAPACITY: usize = 4 << 10;

/// Takes the bytes of a connection in whatever pieces they come and gives back requests.
///
/// It holds only bytes that came and are not yet a whole request; what it gives back does not borrow from its buffer,
/// so that a small value cannot keep a large read alive. After an error the connection is of no more use: the same
/// error comes again.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the first request that was not given back yet begins.
    start: usize,
    scan: Scan,
    validated: bool,
}

impl Decoder {
    /// A decoder for a connection that was just opened: its first request must be VALIDATE.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Adds bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next request, if all of it has come.
    pub fn next_request(&mut self) -> Result<Option<Request>, DecodeError> {
        self.next_with(Request::of_whole)
    }

    /// The next request's own bytes, if all of them have come: for passing it on to somebody who will
    /// [parse](Request::parse) it.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, DecodeError> {
        self.next_with(|frame| Ok(Bytes::copy_from_slice(frame)))
    }

    /// Bytes of a request that has begun and not ended, after the last `next_…` gave back nothing.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the connection has shown that it is a TCPStore client.
    pub fn is_validated(&self) -> bool {
        self.validated
    }

    fn next_with<T>(&mut self, take: impl FnOnce(&[u8]) -> Result<T, DecodeError>) -> Result<Option<T>, DecodeError> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        if let Some(&opcode) = rest.first()
            && !self.validated
            && opcode != Opcode::Validate as u8
        {
            return Err(DecodeError::NotValidated(opcode));
        }
        let Some(length) = self.scan.advance(rest)? else {
            self.let_go();
            return Ok(None);
        };
        let taken = take(rest.get(..length).unwrap_or_default())?;
        self.validated = true;
        self.start += length;
        self.scan = Scan::default();
        Ok(Some(taken))
    }

    /// Drops the bytes of requests that were given back.
    fn let_go(&mut self) {
        if self.start == 0 {
            return;
        }
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = self.buffer.split_off(self.start);
        } else {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
    }
}
