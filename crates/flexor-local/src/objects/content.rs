//! The meaning of ConfigMaps, Secrets and PriorityClasses.

use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// Of a ConfigMap or Secret, by key.
    Data(BTreeMap<String, Vec<u8>>),
    /// Of a PriorityClass.
    Priority(PriorityClass),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityClass {
    /// Pods with a higher value are more important.
    pub value: i32,
    /// The class of pods that name none.
    pub global_default: bool,
    /// Whether its pods may preempt others.
    pub preempts: bool,
}

/// The classes that every cluster has.
pub const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The value of a class that every cluster has.
pub fn built_in(name: &str) -> Option<i32> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
