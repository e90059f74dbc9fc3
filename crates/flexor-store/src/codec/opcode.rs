//! Opcodes: the first byte of a request.

use super::DecodeError;

/// The opcodes with torch's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    Validate = 0,
    Set = 1,
    CompareSet = 2,
    Get = 3,
    Add = 4,
    Check = 5,
    Wait = 6,
    GetNumKeys = 7,
    DeleteKey = 8,
    Append = 9,
    MultiGet = 10,
    MultiSet = 11,
    CancelWait = 12,
    Ping = 13,
    QueuePush = 14,
    QueuePop = 15,
    QueueLen = 16,
    ListKeys = 17,
    Barrier = 18,
}

impl Opcode {
    /// All opcodes, each at the index of its number.
    pub const ALL: [Opcode; 19] = [
        Opcode::Validate,
        Opcode::Set,
        Opcode::CompareSet,
        Opcode::Get,
        Opcode::Add,
        Opcode::Check,
        Opcode::Wait,
        Opcode::GetNumKeys,
        Opcode::DeleteKey,
        Opcode::Append,
        Opcode::MultiGet,
        Opcode::MultiSet,
        Opcode::CancelWait,
        Opcode::Ping,
        Opcode::QueuePush,
        Opcode::QueuePop,
        Opcode::QueueLen,
        Opcode::ListKeys,
        Opcode::Barrier,
    ];
}

impl TryFrom<u8> for Opcode {
    type Error = DecodeError;

    fn try_from(byte: u8) -> Result<Opcode, DecodeError> {
        Opcode::ALL.get(usize::from(byte)).copied().ok_or(DecodeError::UnknownOpcode(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_is_at_the_index_of_its_number() {
        for (number, opcode) in (0u8..).zip(Opcode::ALL) {
            assert_eq!(opcode as u8, number);
            assert_eq!(Opcode::try_from(number), Ok(opcode));
        }
        assert_eq!(Opcode::try_from(19), Err(DecodeError::UnknownOpcode(19)));
    }
}
