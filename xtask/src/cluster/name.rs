//! The name of a cluster of `cargo xtask cluster`: a word that is safe as the beginning of a file name.

use std::fmt;
use std::str::FromStr;

/// The name of one cluster on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterName(String);

impl ClusterName {
    /// The option that names this cluster again on a command line; the ordinary one needs none.
    pub(super) fn option(&self) -> String {
        if *self == Self::default() { String::new() } else { format!(" --name {self}") }
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for ClusterName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=40).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err("a name has 1 to 40 lowercase letters, digits and dashes")
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder() {
        for bad in ["", "..", "a/b", "a.json", "A", "a b", &"x".repeat(41)] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad:?}");
        }
        assert_eq!("gpu-8".parse::<ClusterName>().unwrap().option(), " --name gpu-8");
    }

    #[test]
    fn the_ordinary_cluster_needs_no_option() {
        assert_eq!(ClusterName::default().option(), "");
        assert_eq!("default".parse(), Ok(ClusterName::default()));
    }
}
