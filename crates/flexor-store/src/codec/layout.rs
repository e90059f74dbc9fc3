//! The layout of requests: the fields of each opcode, and a resumable scan that finds the end of a request.
//!
//! The scan reads only lengths. It allocates nothing, checks every declared length against the limits before its bytes
//! have arrived, and reads no byte twice. So neither a huge declared length nor a request in many pieces costs more than
//! the bytes that were sent.

use super::{DecodeError, MAGIC, MAX_KEY, MAX_KEYS, MAX_REQUEST, MAX_VALUE, Opcode};

/// One field of a request after its opcode.
#[derive(Debug, Clone, Copy)]
enum Field {
    Magic,
    Key,
    Value,
    Int32,
    Int64,
    /// A count, then that many times the given fields.
    Each(&'static [Field]),
}

fn fields(opcode: Opcode) -> &'static [Field] {
    use Field::{Each, Int32, Int64, Key, Magic, Value};
    match opcode {
        Opcode::Validate => &[Magic],
        Opcode::Set | Opcode::Append | Opcode::QueuePush => &[Key, Value],
        Opcode::CompareSet => &[Key, Value, Value],
        Opcode::Get | Opcode::DeleteKey | Opcode::QueuePop | Opcode::QueueLen => &[Key],
        Opcode::Add | Opcode::Barrier => &[Key, Int64],
        Opcode::Check | Opcode::Wait | Opcode::MultiGet => &[Each(&[Key])],
        Opcode::MultiSet => &[Each(&[Key, Value])],
        Opcode::Ping => &[Int32],
        Opcode::GetNumKeys | Opcode::CancelWait | Opcode::ListKeys => &[],
    }
}

/// The progress of the scan of one request.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The bytes that were scanned; 0 before the opcode.
    at: usize,
    /// The next fields.
    next: &'static [Field],
    /// The fields that are repeated after `next`, and how many times.
    each: &'static [Field],
    times: u64,
}

impl Scan {
    /// Continues the scan of a request, given from its first byte. Returns its length once it is complete.
    pub(super) fn advance(&mut self, request: &[u8]) -> Result<Option<usize>, DecodeError> {
        if self.at == 0 {
            let Some(&opcode) = request.first() else { return Ok(None) };
            self.next = fields(Opcode::try_from(opcode)?);
            self.at = 1;
        }
        loop {
            let Some((&field, after)) = self.next.split_first() else {
                if self.times == 0 {
                    return Ok(Some(self.at));
                }
                self.times -= 1;
                self.next = self.each;
                continue;
            };
            let here = request.get(self.at..).unwrap_or_default();
            let Some(length) = length(field, here)? else { return Ok(None) };
            if self.at.saturating_add(length) > MAX_REQUEST {
                return Err(DecodeError::RequestTooLong);
            }
            if here.len() < length {
                return Ok(None);
            }
            if let (Field::Each(each), Some(times)) = (field, u64_at(here)) {
                (self.each, self.times) = (each, times);
            }
            self.at += length;
            self.next = after;
        }
    }
}

/// The length of a field, if its first bytes are known; for a list, the length of the count alone.
fn length(field: Field, here: &[u8]) -> Result<Option<usize>, DecodeError> {
    match field {
        Field::Int32 => Ok(Some(4)),
        Field::Int64 => Ok(Some(8)),
        Field::Magic => match here.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) {
            None => Ok(None),
            Some(MAGIC) => Ok(Some(4)),
            Some(found) => Err(DecodeError::WrongMagic { found }),
        },
        Field::Key => Ok(declared(here, MAX_KEY, DecodeError::KeyTooLong)?.map(|length| 8 + length)),
        Field::Value => Ok(declared(here, MAX_VALUE, DecodeError::ValueTooLong)?.map(|length| 8 + length)),
        Field::Each(_) => Ok(declared(here, MAX_KEYS, DecodeError::TooManyKeys)?.map(|_| 8)),
    }
}

fn declared(here: &[u8], limit: usize, refuse: fn(u64) -> DecodeError) -> Result<Option<usize>, DecodeError> {
    let Some(number) = u64_at(here) else { return Ok(None) };
    match usize::try_from(number) {
        Ok(number) if number <= limit => Ok(Some(number)),
        _ => Err(refuse(number)),
    }
}

fn u64_at(here: &[u8]) -> Option<u64> {
    here.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
