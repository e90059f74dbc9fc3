//! Why something was decided or said: one closed list of CamelCase words.
//!
//! A reason is stable: scripts match on it, and `docs/reference/reasons.md` (generated from this file) explains each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a finding about a manifest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// It can be used, but not everything in it does what it seems to.
    Warning,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident: $severity:ident,)*) => {
        /// Why a finding was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the reference page.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// The word itself.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)*
                }
            }

            /// The line that the reference page has about it.
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Reason::$name => concat!($($doc),+).trim_ascii(),)*
                }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self {
                    $(Reason::$name => Severity::$severity,)*
                }
            }
        }
    };
}

reasons! {
    /// A file or folder could not be opened, searched or read to its end.
    UnreadableInput: Error,
    /// The file could not be read as YAML; the line says where reading stopped.
    InvalidYaml: Error,
    /// A key stands twice in one map. kubectl would silently keep one of the two.
    DuplicateKey: Error,
    /// The document is no Kubernetes object: it is no map, or `apiVersion` or `kind` is missing or no string.
    NotAnObject: Error,
    /// The kind belongs to a system Flexor takes over, but not in this API version.
    UnknownVersion: Error,
    /// The group belongs to a system Flexor takes over, but it has no such kind.
    UnknownKind: Error,
    /// No generation of the system has such a field here; the API server refuses it too.
    UnknownField: Error,
    /// A field that must be there is missing.
    MissingField: Error,
    /// The value is of another type than the field holds: a string where a number belongs, a list for a map.
    WrongType: Error,
    /// The value has the right type but lies outside what the field may hold.
    InvalidValue: Error,
    /// Two or more fields contradict each other, or the name breaks a rule about names.
    RuleBroken: Error,
    /// Nothing reads this field: the original accepted it without effect, and so does Flexor.
    FieldUnused: Warning,
    /// The field stands or is spelt as not every generation of the original reads it. Flexor does.
    FieldMisplaced: Warning,
    /// The quantity is possible but hardly meant, such as 128 thousandths of a byte.
    SuspiciousQuantity: Warning,
    /// The command asks for a rendezvous backend that only a patched image has.
    BackendUnavailable: Warning,
    /// The command line overrides a setting that Flexor makes, and so switches off what depends on it.
    CommandOverrides: Warning,
    /// Kubernetes cannot read the pod template, so no pod could be made from it.
    UnreadablePod: Error,
    /// Kubernetes knows no such field of a pod; it is passed on as it is.
    UnknownPodField: Warning,
    /// The container that trains has no image, so no pod can be made.
    NoImage: Warning,
    /// A role's name is none that the system knows; its pods are kept running, and that is all.
    UnknownRole: Warning,
    /// A role is missing without which a job of this strategy hardly makes sense.
    MissingRole: Warning,
    /// A role that the planner should size does not say what its pods need.
    NoResources: Warning,
    /// The value is accepted but something else takes its place, or it is cut to a limit.
    ValueReplaced: Warning,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_camel_case_word_with_a_line_about_it() {
        for reason in Reason::ALL {
            assert!(reason.as_str().chars().all(|c| c.is_ascii_alphabetic()), "{reason}");
            assert!(reason.explanation().ends_with('.'), "{reason}");
        }
    }
}
