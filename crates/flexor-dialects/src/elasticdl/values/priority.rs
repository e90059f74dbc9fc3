//! Priority strings: the name of a PriorityClass, or which share of the workers is important.
//!
//! The classes `high` and `low` that a share speaks of must exist in the cluster. The share goes into the neutral job
//! as it is, so that it stays the same share when workers are added or taken away.

use flexor_model::{ObjectName, PrioritySplit, RolePriority, Rounding, SplitOrder};

use super::value::{OptionValue, Refusal, Remark};
use crate::finding::quoted;

/// The priority of the master's or the servers' pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodPriority {
    /// The cluster's default.
    Unset,
    /// The PriorityClass of that name.
    Class(ObjectName),
}

/// The priority of the workers' pods.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerPriority {
    /// One for all of them.
    Same(PodPriority),
    /// `high=0.5` of 0.2.0rc2: the first workers are high, rounded down, the rest low.
    FirstHigh(Fraction),
    /// `0.5` of later releases: workers are high from both ends of the ranks inwards, rounded up, the rest low.
    EndsHigh(Fraction),
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fraction(f64);

impl PodPriority {
    /// In the words of the neutral job.
    pub fn to_role(&self) -> RolePriority {
        match self {
            Self::Unset => RolePriority::FromTemplate,
            Self::Class(name) => RolePriority::Class(name.to_string()),
        }
    }
}

impl WorkerPriority {
    /// In the words of the neutral job.
    pub fn to_role(&self) -> RolePriority {
        let split = |share: &Fraction, rounding, order| {
            RolePriority::Split(PrioritySplit { share: share.0, rounding, order, before: 0 })
        };
        match self {
            Self::Same(priority) => priority.to_role(),
            Self::FirstHigh(share) => split(share, Rounding::Down, SplitOrder::First),
            Self::EndsHigh(share) => split(share, Rounding::Up, SplitOrder::BothEnds),
        }
    }
}

impl OptionValue for PodPriority {
    const EXPECTS: &'static str = "CLASS";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Ok(Self::Unset);
        }
        text.parse().map(Self::Class).map_err(|_| {
            Refusal::invalid(
                format!("{} is not a valid PriorityClass name", quoted(text)),
                "expected a name such as high or low",
            )
        })
    }

    fn write(&self) -> String {
        match self {
            Self::Unset => String::new(),
            Self::Class(name) => name.to_string(),
        }
    }
}

impl OptionValue for WorkerPriority {
    const EXPECTS: &'static str = "CLASS|high=SHARE|SHARE";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        if let Some(share) = text.strip_prefix("high=") {
            return match number(share) {
                Some(share) => Ok(Self::FirstHigh(Fraction::new(share)?)),
                None => {
                    let shown = quoted(text);
                    remarks.push(Remark::replaced(format!("{shown} has no number after `=`; no priority is set")));
                    Ok(Self::Same(PodPriority::Unset))
                }
            };
        }
        match number(text) {
            Some(share) => Ok(Self::EndsHigh(Fraction::new(share)?)),
            None => PodPriority::read(text, remarks).map(Self::Same).map_err(|refusal| Refusal {
                help: "expected a name such as low, or a share such as high=0.5".to_owned(),
                ..refusal
            }),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Same(priority) => priority.write(),
            Self::FirstHigh(share) => format!("high={}", share.0),
            Self::EndsHigh(share) => share.0.to_string(),
        }
    }
}

impl Fraction {
    fn new(number: f64) -> Result<Self, Refusal> {
        if (0.0..=1.0).contains(&number) {
            // A negative zero prints as another text than it was read from.
            Ok(Self(number.abs()))
        } else {
            Err(Refusal::invalid(format!("{number} is not a share"), "must be from 0 to 1, such as 0.5"))
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A number in digits; `nan`, `inf` and the like are names.
fn number(text: &str) -> Option<f64> {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') { text.trim().parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use flexor_model::Rank;
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<WorkerPriority, Refusal> {
        WorkerPriority::read(text, &mut Vec::new())
    }

    fn high(text: &str, workers: u32) -> usize {
        match read(text).unwrap().to_role() {
            RolePriority::Split(split) => (0..workers).filter(|rank| split.is_high(Rank(*rank), workers)).count(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_old_share_is_rounded_down_and_the_new_one_up() {
        assert_eq!([high("high=0.5", 4), high("high=0.5", 5), high("high=0", 5), high("high=1", 5)], [2, 2, 0, 5]);
        assert_eq!([high("0.5", 4), high("0.5", 5), high("0", 5), high("1.0", 5)], [2, 3, 0, 5]);
    }

    #[test]
    fn any_other_word_is_a_class_for_all() {
        assert_eq!(read("low").unwrap().to_role(), RolePriority::Class("low".into()));
        assert_eq!(read("nan").unwrap().to_role(), RolePriority::Class("nan".into()));
        assert_eq!(read("").unwrap().to_role(), RolePriority::FromTemplate);
        assert!(read("High!").unwrap_err().help.contains("high=0.5"));
    }

    #[test]
    fn a_share_without_a_number_is_none_for_all_and_said_so() {
        let mut remarks = Vec::new();
        assert_eq!(WorkerPriority::read("high=half", &mut remarks), Ok(WorkerPriority::Same(PodPriority::Unset)));
        assert_eq!(remarks.len(), 1);
    }

    #[test]
    fn a_share_above_one_is_refused() {
        for text in ["1.5", "high=2", "-0.5"] {
            assert!(read(text).unwrap_err().help.contains("from 0 to 1"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_what_is_accepted_is_printed_back(
            text in "(high=)?[-+]?[0-9.e]{0,6}|[a-z.-]{0,8}|.{0,20}",
        ) {
            if let Ok(priority) = read(&text) {
                prop_assert_eq!(read(&priority.write()), Ok(priority));
            }
        }
    }
}
