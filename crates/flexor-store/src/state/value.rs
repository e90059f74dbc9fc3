//! The values on the stack of the pickle machine: a closed set without anything that can be called.
//!
//! A tuple holds only the arguments of one of three constructors, so each kind of tuple is a variant.

use super::stamp::Stamp;

/// The module of torchrun's two classes.
pub(super) const TORCH_MODULE: &str = "torch.distributed.elastic.rendezvous.dynamic_rendezvous";
pub(super) const STATE_CLASS: &str = "_RendezvousState";
pub(super) const NODE_CLASS: &str = "_NodeDesc";
/// The module, and the name of its main class.
pub(super) const DATETIME: &str = "datetime";
pub(super) const TIMEZONE: &str = "timezone";
pub(super) const TIMEDELTA: &str = "timedelta";

/// The classes that a state is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    State,
    Node,
    Datetime,
    Timezone,
    Timedelta,
}

impl Class {
    pub(super) fn named(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            (TORCH_MODULE, STATE_CLASS) => Some(Self::State),
            (TORCH_MODULE, NODE_CLASS) => Some(Self::Node),
            (DATETIME, DATETIME) => Some(Self::Datetime),
            (DATETIME, TIMEZONE) => Some(Self::Timezone),
            (DATETIME, TIMEDELTA) => Some(Self::Timedelta),
            _ => None,
        }
    }
}

/// A value, or the index of a mutable object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(u64),
    Text(&'a str),
    /// The bytes of a `datetime`; no other bytes occur.
    DatetimeBytes([u8; 10]),
    Class(Class),
    EmptyTuple,
    /// `(0, 0, 0)`
    TimedeltaArgs,
    /// `timedelta(0, 0, 0)`
    ZeroTimedelta,
    /// `(timedelta(0, 0, 0),)`
    TimezoneArgs,
    Utc,
    /// `(bytes, timezone.utc)`, or `(bytes,)` of a time without a zone
    DatetimeArgs(Stamp),
    Datetime(Stamp),
    Dict(usize),
    Set(usize),
    Node(usize),
    State,
}

impl Value<'_> {
    /// The type of the value, for a message.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Text(_) => "a str",
            Self::DatetimeBytes(_) => "bytes",
            Self::Class(_) => "a class",
            Self::EmptyTuple | Self::TimedeltaArgs | Self::TimezoneArgs | Self::DatetimeArgs(_) => "a tuple",
            Self::ZeroTimedelta => "a timedelta",
            Self::Utc => "a timezone",
            Self::Datetime(_) => "a datetime",
            Self::Dict(_) => "a dict",
            Self::Set(_) => "a set",
            Self::Node(_) => "a _NodeDesc",
            Self::State => "a _RendezvousState",
        }
    }
}
