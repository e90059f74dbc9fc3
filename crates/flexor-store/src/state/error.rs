//! Why a value is no rendezvous state.
//!
//! Positions are byte offsets in the pickle, after base64, as `python -m pickletools` prints them. Text of a client is
//! shortened and escaped before it gets into a message.

use super::{MAX_NODES, MAX_VALUE};

/// Why [`decode`](super::decode) refuses a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// More base64 than a state may take.
    #[error("the value is {length} bytes long; a rendezvous state takes at most {MAX_VALUE}")]
    TooLong {
        /// In bytes of base64.
        length: usize,
    },
    /// Not standard base64 with its padding.
    #[error("the value is not base64 ({0}); torchrun writes its rendezvous state as base64 of a pickle")]
    NotBase64(#[from] base64::DecodeError),
    /// No pickle, or one of a protocol that no supported Python uses for it.
    #[error(
        "the value is not a pickle of protocol 4 or 5 but begins with {begin:02x?}; torchrun needs Python 3.8 or later"
    )]
    NotPickle {
        /// The first bytes, two at most.
        begin: Vec<u8>,
    },
    #[error("the pickle ends in the middle, in {opcode} at byte {at}; part of the value was lost on its way")]
    CutOff {
        /// The position of the unfinished instruction.
        at: usize,
        opcode: &'static str,
    },
    /// A frame that does not hold whole instructions.
    #[error("{opcode} at byte {at} crosses the bounds of a pickle frame; the value was damaged or made by hand")]
    Frame { at: usize, opcode: &'static str },
    /// An instruction that no pickler writes for a state.
    #[error("opcode {opcode} at byte {at} does not occur in a rendezvous state; only torchrun may write this key")]
    Opcode {
        at: usize,
        /// The name, or the number of an unknown opcode.
        opcode: String,
    },
    /// A class or function that is no part of a state.
    #[error(
        "the pickle names {path} at byte {at}, which is no part of a rendezvous state; only torchrun may write this key"
    )]
    Class {
        at: usize,
        /// Module and name.
        path: String,
    },
    /// A known instruction with a wrong operand.
    #[error("{opcode} at byte {at} takes {expected}, not {found}; the value was damaged or made by hand")]
    Operand { at: usize, opcode: &'static str, expected: &'static str, found: String },
    /// An attribute of the wrong kind.
    #[error("{class}.{attribute} is {found}, not {expected}; this version of torch is not known")]
    AttributeKind { class: &'static str, attribute: &'static str, expected: &'static str, found: &'static str },
    /// An attribute that the class does not have in any known torch.
    #[error("{class} has an attribute {attribute}; this version of torch is not known")]
    AttributeUnknown { class: &'static str, attribute: String },
    /// An attribute that every known torch writes.
    #[error("{class} has no attribute {attribute}; this version of torch is not known")]
    AttributeMissing { class: &'static str, attribute: &'static str },
    /// An attribute with two values.
    #[error("{class} has the attribute {attribute} twice; the value was made by hand")]
    AttributeTwice { class: &'static str, attribute: &'static str },
    /// A node that occurs twice in a dict or set.
    #[error("node {node} stands twice in {attribute}; the value was made by hand")]
    NodeTwice {
        /// As torchrun prints it.
        node: String,
        /// The attribute of the state.
        attribute: &'static str,
    },
    /// More nodes than a state may name.
    #[error("the state names more than {MAX_NODES} nodes, at byte {at}; split the job")]
    TooManyNodes {
        /// The position of the first surplus node.
        at: usize,
    },
    /// More objects than any state needs.
    #[error("{opcode} at byte {at} would hold more than {limit} {what}; the value was made by hand")]
    TooMuch { at: usize, opcode: &'static str, limit: usize, what: &'static str },
    /// Bytes after the end of the pickle.
    #[error("{bytes} bytes follow the end of the pickle; the value was damaged or made by hand")]
    Trailing { bytes: usize },
}

/// Text of a client, escaped and shortened for a message.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 120;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("{shown}…") } else { shown }
}
