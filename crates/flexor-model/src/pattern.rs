//! Names and values with gaps: `{job}-edljob-{role}-{id}`.
//!
//! Dialects name things in their own ways; the engine must not know how. So a dialect hands over patterns as data, and
//! whoever makes a pod fills the gaps from its [`PodIdentity`].

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{PodIdentity, RoleName};

/// A text with gaps that are filled for one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Gap(Field),
}

/// What can fill a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// `{job}`: the job's name.
    Job,
    /// `{namespace}`: the namespace it runs in.
    Namespace,
    /// `{uid}`: the job's unique id.
    Uid,
    /// `{role}`: the role, in lower case.
    Role,
    /// `{id}`: the number in the pod's name.
    Id,
    /// `{rank}`: the pod's place in its role.
    Rank,
    /// `{replicas:ROLE}` or `{replicas:ROLE+ROLE}`: how many replicas other roles have, together.
    Replicas(Vec<RoleName>),
    /// `{relaunches}`: how often the pod's place has been filled again.
    Relaunches,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{{{gap}}}` in `{pattern}` names nothing; known are job, namespace, uid, role, id, rank, relaunches and replicas:ROLE"
)]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// The gap that could not be understood.
    pub gap: String,
}

/// How many digits an id is given room for: a job of 100,000 nodes.
const ID_DIGITS: usize = 5;

impl Pattern {
    /// A pattern that stands in the program itself.
    ///
    /// # Panics
    ///
    /// If it names a gap that there is not: a slip of the programmer, found by the first test that uses it.
    pub fn of(text: &'static str) -> Self {
        text.parse().expect("patterns in the program name only gaps that there are")
    }

    /// A number, which has no gaps.
    pub fn number(n: u32) -> Self {
        Self(vec![Part::Text(n.to_string())])
    }

    /// The text for one pod.
    pub fn fill(&self, identity: &PodIdentity<'_>) -> String {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Gap(field) => filled.push_str(&identity.get(field)),
            }
        }
        filled
    }

    /// How many characters are added to the job's name, for the longest role and the largest id there is room for.
    ///
    /// Only meaningful for patterns of names, which have neither a namespace nor a uid in them.
    pub fn overhead(&self, role: &RoleName) -> usize {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                Part::Gap(Field::Role) => role.as_str().len(),
                Part::Gap(Field::Id | Field::Rank | Field::Replicas(_) | Field::Relaunches) => ID_DIGITS,
                Part::Gap(Field::Job | Field::Namespace | Field::Uid) => 0,
            })
            .sum()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let error = |gap: &str| PatternError { pattern: text.to_owned(), gap: gap.to_owned() };
            let (gap, behind) = after.split_once('}').ok_or_else(|| error(after))?;
            let field = Field::named(gap).ok_or_else(|| error(gap))?;
            parts.push(Part::Gap(field));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

impl Field {
    fn named(name: &str) -> Option<Self> {
        match name {
            "job" => Some(Self::Job),
            "namespace" => Some(Self::Namespace),
            "uid" => Some(Self::Uid),
            "role" => Some(Self::Role),
            "id" => Some(Self::Id),
            "rank" => Some(Self::Rank),
            "relaunches" => Some(Self::Relaunches),
            other => {
                let roles = other.strip_prefix("replicas:")?.split('+').map(|role| role.parse().ok());
                roles.collect::<Option<_>>().map(Self::Replicas)
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job => f.write_str("job"),
            Self::Namespace => f.write_str("namespace"),
            Self::Uid => f.write_str("uid"),
            Self::Role => f.write_str("role"),
            Self::Id => f.write_str("id"),
            Self::Rank => f.write_str("rank"),
            Self::Relaunches => f.write_str("relaunches"),
            Self::Replicas(roles) => {
                let roles: Vec<&str> = roles.iter().map(RoleName::as_str).collect();
                write!(f, "replicas:{}", roles.join("+"))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Gap(field) => write!(f, "{{{field}}}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_filled_and_printed_back() {
        let pattern: Pattern = "{job}-edljob-{role}-{id}".parse().unwrap();
        assert_eq!(pattern.to_string(), "{job}-edljob-{role}-{id}");
        assert_eq!(pattern.fill(&PodIdentity::example("deepctr", "ps", 3, 1)), "deepctr-edljob-ps-3");
    }

    #[test]
    fn the_overhead_leaves_room_for_long_ids() {
        let pattern: Pattern = "{job}-edljob-{role}-{id}".parse().unwrap();
        assert_eq!(pattern.overhead(&"worker".parse().unwrap()), "-edljob-worker-".len() + ID_DIGITS);
    }

    #[test]
    fn an_unknown_gap_is_refused() {
        assert!("{jobb}".parse::<Pattern>().unwrap_err().to_string().contains("`{jobb}`"));
        assert!("{job".parse::<Pattern>().is_err());
    }
}
