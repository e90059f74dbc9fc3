//! Names that Kubernetes will accept, checked once where they enter.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest DNS label, and so the longest pod, service and label value that can be made from a job's name.
pub const LABEL_MAX: usize = 63;

const OBJECT_NAME_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

/// Why a text is not the name it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The empty text names nothing.
    #[error("is empty; write a name of lower-case letters, digits and `-`")]
    Empty,
    /// Longer than such a name can be.
    #[error("has {length} characters; at most {most} are possible")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// A character that no DNS label has.
    #[error("contains `{found}`; only lower-case letters, digits and `-` are possible")]
    Character {
        /// The first such character.
        found: char,
    },
    /// Begins or ends with something that may stand only inside.
    #[error("must begin with {begin} and end with a letter or digit")]
    Edge {
        /// What it may begin with.
        begin: &'static str,
    },
}

/// A DNS-1123 label: what namespaces and pods are called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DnsLabel(String);

/// The name of a job: a DNS-1035 label, because services are named after it and those begin with a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobName(String);

/// The name of a role as the dialect's users write it: `worker`, `ps`, `Worker`, `trainer`.
///
/// Lower-cased it is part of pod names, so it is a DNS label but for capitals.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(String);

/// The name of any object in a cluster: a DNS-1123 subdomain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectName(String);

/// The name of a port: what Kubernetes takes for one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortName(String);

fn check(text: &str, first: fn(char) -> bool, begin: &'static str) -> Result<(), NameError> {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(found) = text.chars().find(|&c| !inside(c)) {
        return Err(NameError::Character { found });
    }
    if !text.starts_with(first) || text.ends_with('-') {
        return Err(NameError::Edge { begin });
    }
    Ok(())
}

/// The same for a name that must fit into one label.
fn check_label(text: &str, first: fn(char) -> bool, begin: &'static str) -> Result<(), NameError> {
    check(text, first, begin)?;
    if text.len() > LABEL_MAX { Err(NameError::TooLong { length: text.len(), most: LABEL_MAX }) } else { Ok(()) }
}

impl FromStr for DnsLabel {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_label(text, |c| c != '-', "a letter or digit")?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for JobName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_label(text, |c| c.is_ascii_lowercase(), "a letter")?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for RoleName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_label(&text.to_ascii_lowercase(), |c| c.is_ascii_lowercase(), "a letter")?;
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for ObjectName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.len() > OBJECT_NAME_MAX {
            return Err(NameError::TooLong { length: text.len(), most: OBJECT_NAME_MAX });
        }
        for label in text.split('.') {
            check(label, |c| c != '-', "a letter or digit")?;
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for PortName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text, |c| c != '-', "a letter or digit")?;
        if text.len() > PORT_NAME_MAX {
            return Err(NameError::TooLong { length: text.len(), most: PORT_NAME_MAX });
        }
        if text.contains("--") || !text.contains(|c: char| c.is_ascii_lowercase()) {
            return Err(NameError::Edge { begin: "a letter or digit, hold a letter and no `--`," });
        }
        Ok(Self(text.to_owned()))
    }
}

impl RoleName {
    /// The form that stands in pod names and labels.
    pub fn lower(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

macro_rules! text_newtype {
    ($($name:ident),*) => {$(
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    )*};
}

text_newtype!(DnsLabel, JobName, ObjectName, PortName, RoleName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_name_begins_with_a_letter() {
        assert!("a".parse::<JobName>().is_ok());
        assert!("deepctr-auto-scaling".parse::<JobName>().is_ok());
        assert_eq!("0job".parse::<JobName>(), Err(NameError::Edge { begin: "a letter" }));
        assert!("0job".parse::<DnsLabel>().is_ok());
    }

    #[test]
    fn what_is_no_label_is_refused_with_the_reason() {
        assert_eq!("".parse::<JobName>(), Err(NameError::Empty));
        assert_eq!("imagenet_run_0".parse::<JobName>(), Err(NameError::Character { found: '_' }));
        assert_eq!("a.b".parse::<DnsLabel>(), Err(NameError::Character { found: '.' }));
        assert_eq!("a-".parse::<DnsLabel>(), Err(NameError::Edge { begin: "a letter or digit" }));
        assert_eq!("x".repeat(64).parse::<DnsLabel>(), Err(NameError::TooLong { length: 64, most: LABEL_MAX }));
    }

    #[test]
    fn an_object_name_may_have_dots() {
        for good in ["high", "0.5", "a-b.c", &"a".repeat(253)] {
            assert!(good.parse::<ObjectName>().is_ok(), "{good}");
        }
        for bad in ["", "High", "a_b", "-a", "a-", "a..b", "a."] {
            assert!(bad.parse::<ObjectName>().is_err(), "{bad}");
        }
        assert!("a".repeat(254).parse::<ObjectName>().is_err());
    }

    #[test]
    fn a_port_has_a_short_name_with_a_letter_in_it() {
        assert!("jobport-7164".parse::<PortName>().is_ok());
        for bad in ["1234", "a--b", "a-name-that-is-too-long", "-a", ""] {
            assert!(bad.parse::<PortName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_role_keeps_its_capitals_and_has_a_lower_form() {
        let role: RoleName = "Worker".parse().unwrap();
        assert_eq!((role.as_str(), role.lower().as_str()), ("Worker", "worker"));
    }
}
