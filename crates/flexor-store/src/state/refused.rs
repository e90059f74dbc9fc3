//! Why a value is not taken for a rendezvous state.
//!
//! Places are byte offsets in the pickle, that is after base64, as `python -m pickletools` prints them. What a client
//! wrote is shortened and escaped before it gets into a message.

use super::{MAX_NODES, MAX_VALUE};

/// What [`decode`](super::decode) met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
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
        /// Its first bytes, two at most.
        begin: Vec<u8>,
    },
    /// Ends too early.
    #[error("the pickle ends in the middle, in {opcode} at byte {at}; part of the value was lost on its way")]
    CutOff {
        /// Where the unfinished instruction stands.
        at: usize,
        /// Its name, when that much is there.
        opcode: &'static str,
    },
    /// A frame that does not hold whole instructions.
    #[error("{opcode} at byte {at} crosses the bounds of a pickle frame; the value was damaged or made by hand")]
    Frame {
        /// Where the instruction stands.
        at: usize,
        /// Its name.
        opcode: &'static str,
    },
    /// An instruction that no pickler writes for a state.
    #[error("opcode {opcode} at byte {at} does not occur in a rendezvous state; only torchrun may write this key")]
    Opcode {
        /// Where it stands.
        at: usize,
        /// Its name, or its number when it has none.
        opcode: String,
    },
    /// A class or function that is no part of a state.
    #[error(
        "the pickle names {path} at byte {at}, which is no part of a rendezvous state; only torchrun may write this key"
    )]
    Class {
        /// Where it is named.
        at: usize,
        /// Module and name.
        path: String,
    },
    /// An instruction that is known, with an operand that does not belong there.
    #[error("{opcode} at byte {at} takes {wanted}, not {met}; the value was damaged or made by hand")]
    Operand {
        /// Where the instruction stands.
        at: usize,
        /// Its name.
        opcode: &'static str,
        /// What it may take.
        wanted: &'static str,
        /// What stands there.
        met: String,
    },
    /// An attribute of the wrong kind.
    #[error("{class}.{attribute} is {met}, not {wanted}; this version of torch is not known")]
    AttributeKind {
        /// The class whose attribute it is.
        class: &'static str,
        /// The attribute.
        attribute: &'static str,
        /// The kind that it has in torch.
        wanted: &'static str,
        /// What stands there.
        met: &'static str,
    },
    /// An attribute that the class does not have in any known torch.
    #[error("{class} has an attribute {attribute}; this version of torch is not known")]
    AttributeUnknown {
        /// The class that has it.
        class: &'static str,
        /// Its name.
        attribute: String,
    },
    /// An attribute that every known torch writes.
    #[error("{class} has no attribute {attribute}; this version of torch is not known")]
    AttributeMissing {
        /// The class that should have it.
        class: &'static str,
        /// Its name.
        attribute: &'static str,
    },
    /// An attribute with two values.
    #[error("{class} has the attribute {attribute} twice; the value was made by hand")]
    AttributeTwice {
        /// The class that has it.
        class: &'static str,
        /// Its name.
        attribute: &'static str,
    },
    /// A node that stands twice where Python can hold it once.
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
        /// Where the first one too many is made.
        at: usize,
    },
    /// More of something than any state needs.
    #[error("{opcode} at byte {at} would hold more than {limit} {what}; the value was made by hand")]
    TooMuch {
        /// Where the instruction stands.
        at: usize,
        /// Its name.
        opcode: &'static str,
        /// The most that may be held.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// Something behind the end of the pickle.
    #[error("{bytes} bytes follow the end of the pickle; the value was damaged or made by hand")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// Text from outside, fit for a message: escaped, and no longer than a line.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 120;
    let shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("{shown}…") } else { shown }
}
