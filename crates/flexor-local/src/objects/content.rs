//! What objects mean.

use std::collections::BTreeMap;

/// What an object means.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// Of a ConfigMap or Secret: bytes by their keys.
    Data(BTreeMap<String, Vec<u8>>),
    /// Of a PriorityClass.
    Priority(PriorityClass),
}

/// How important the pods of a class are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityClass {
    /// More is more important.
    pub value: i32,
    /// It is that of pods that name no class.
    pub global_default: bool,
    /// Whether its pods may push others out.
    pub preempts: bool,
}

/// The classes that every cluster has.
pub const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The value of a class that every cluster has.
pub fn built_in(name: &str) -> Option<i32> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
