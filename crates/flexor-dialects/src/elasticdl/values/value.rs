//! From the text of an option to its typed value and back.
//!
//! Numbers and switches are read as Python reads them, because that is what users' scripts were tried with. The texts
//! with an inner grammar (resources, volumes, …) have a file each.

use std::num::NonZeroU32;

use flexor_model::{DnsLabel, JobName, Reason};

use crate::{elasticdl::options::Arity, finding::quoted};

/// A value that an option can hold.
pub(in crate::elasticdl) trait OptionValue: PartialEq + Sized {
    /// How many values follow the option.
    const ARITY: Arity = Arity::One;
    /// What the value looks like, for help texts.
    const EXPECTS: &'static str;

    /// Reads the value. What is accepted but does not mean what it seems to is put into `remarks`.
    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal>;

    /// The text that reads as this value again.
    fn write(&self) -> String;
}

/// Something to say about a value that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::elasticdl) struct Remark {
    /// A warning.
    pub(in crate::elasticdl) reason: Reason,
    /// What to say.
    pub(in crate::elasticdl) message: String,
}

/// Why a value was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::elasticdl) struct Refusal {
    /// An error.
    pub(in crate::elasticdl) reason: Reason,
    /// What is wrong.
    pub(in crate::elasticdl) message: String,
    /// What to write instead.
    pub(in crate::elasticdl) help: String,
}

impl Remark {
    /// Something takes the place of what was written.
    pub(in crate::elasticdl) fn replaced(message: impl Into<String>) -> Self {
        Self { reason: Reason::ValueReplaced, message: message.into() }
    }

    /// Nothing reads what was written.
    pub(in crate::elasticdl) fn unused(message: impl Into<String>) -> Self {
        Self { reason: Reason::FieldUnused, message: message.into() }
    }
}

impl Refusal {
    /// The value cannot be read as what the option holds.
    pub(in crate::elasticdl) fn wrong_type(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason: Reason::WrongType, message: message.into(), help: help.into() }
    }

    /// The value can be read but not used.
    pub(in crate::elasticdl) fn invalid(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason: Reason::InvalidValue, message: message.into(), help: help.into() }
    }
}

impl OptionValue for String {
    const EXPECTS: &'static str = "STRING";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        Ok(text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }
}

impl OptionValue for u32 {
    const EXPECTS: &'static str = "NUMBER";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        integer(text, 0)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for NonZeroU32 {
    const EXPECTS: &'static str = "NUMBER";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let number = integer(text, 1)?;
        NonZeroU32::new(number).ok_or_else(|| out_of_range(text, 1))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// An integer as Python's `int` reads it: spaces around it, a sign and `_` between digits are allowed.
fn integer(text: &str, at_least: u32) -> Result<u32, Refusal> {
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let well_formed = digits.split('_').all(|run| !run.is_empty() && run.bytes().all(|b| b.is_ascii_digit()));
    if !well_formed {
        return Err(Refusal::wrong_type(
            format!("{} is not an integer", quoted(text)),
            format!("must be an integer of at least {at_least}"),
        ));
    }
    let number: u32 = digits.replace('_', "").parse().map_err(|_| out_of_range(text, at_least))?;
    if (negative && number > 0) || number < at_least { Err(out_of_range(text, at_least)) } else { Ok(number) }
}

fn out_of_range(text: &str, at_least: u32) -> Refusal {
    Refusal::invalid(format!("{} is out of range", quoted(text)), format!("must be from {at_least} to {}", u32::MAX))
}

impl OptionValue for bool {
    const ARITY: Arity = Arity::Switch;
    const EXPECTS: &'static str = "true|false";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let word = text.to_lowercase();
        let yes = ["true", "yes", "t", "y"].contains(&word.as_str());
        if !yes && !["false", "no", "f", "n"].contains(&word.as_str()) {
            let shown = quoted(text);
            remarks.push(Remark::replaced(format!("{shown} is read as false; only true, yes, t and y are true")));
        }
        Ok(yes)
    }

    fn write(&self) -> String {
        if *self { "True" } else { "False" }.to_owned()
    }
}

impl OptionValue for JobName {
    const EXPECTS: &'static str = "NAME";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        text.parse().map_err(|error| {
            Refusal::invalid(format!("{} {error}", quoted(text)), "expected a name such as test-mnist")
        })
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for DnsLabel {
    const EXPECTS: &'static str = "NAME";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        text.parse()
            .map_err(|error| Refusal::invalid(format!("{} {error}", quoted(text)), "expected a name such as default"))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: OptionValue>(text: &str) -> Result<T, Refusal> {
        T::read(text, &mut Vec::new())
    }

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, number) in [("4", 4), (" 4 ", 4), ("+4", 4), ("1_000", 1000), ("-0", 0), ("007", 7)] {
            assert_eq!(read::<u32>(text), Ok(number), "{text}");
        }
        for text in ["", "four", "4.0", "1__0", "_1", "0x10", "- 4"] {
            assert_eq!(read::<u32>(text).unwrap_err().reason, Reason::WrongType, "{text}");
        }
        for text in ["-4", "4294967296"] {
            assert_eq!(read::<u32>(text).unwrap_err().reason, Reason::InvalidValue, "{text}");
        }
        assert!(read::<NonZeroU32>("0").unwrap_err().help.contains("from 1"));
    }

    #[test]
    fn only_four_words_mean_true_and_others_are_remarked_on() {
        let mut remarks = Vec::new();
        for text in ["True", "YES", "t", "y"] {
            assert_eq!(bool::read(text, &mut remarks), Ok(true));
        }
        for text in ["False", "no", "F", "n"] {
            assert_eq!(bool::read(text, &mut remarks), Ok(false));
        }
        assert_eq!(remarks, []);
        for text in ["1", "on", ""] {
            assert_eq!(bool::read(text, &mut remarks), Ok(false));
        }
        assert_eq!(remarks.len(), 3);
    }
}
