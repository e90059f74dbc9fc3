//! Decodes the bytes of one connection into requests.

use bytes::Bytes;

use super::layout::Scan;
use super::{DecodeError, Opcode, Request};

/// A buffer up to this size is kept for the next request; a larger one is freed as soon as it is not needed.
const KEPT_CAPACITY: usize = 4 << 10;

/// Takes the bytes of a connection in pieces of any size and returns requests.
///
/// It holds only the bytes of an incomplete request. Requests do not borrow from its buffer, so that a small value cannot
/// keep a large read alive. After an error the connection is unusable: the decoder returns the same error again.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The start of the first request that was not returned yet.
    start: usize,
    scan: Scan,
    validated: bool,
}

impl Decoder {
    /// Creates a decoder for a new connection, whose first request must be VALIDATE.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next request, if it is complete.
    pub fn next_request(&mut self) -> Result<Option<Request>, DecodeError> {
        self.next_with(Request::of_whole)
    }

    /// The bytes of the next request, if it is complete, for a process that will [parse](Request::parse) them.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, DecodeError> {
        self.next_with(|frame| Ok(Bytes::copy_from_slice(frame)))
    }

    /// The bytes of an incomplete request, after the last `next_…` has returned none.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the client has sent VALIDATE.
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
            self.drop_consumed();
            return Ok(None);
        };
        let taken = take(rest.get(..length).unwrap_or_default())?;
        self.validated = true;
        self.start += length;
        self.scan = Scan::default();
        Ok(Some(taken))
    }

    /// Drops the bytes of requests that were returned.
    fn drop_consumed(&mut self) {
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
