//! Parses descriptions such as `deepfm:dim=8,hidden=64x32`: a name and options.
//!
//! Models, optimizers and schemas are chosen this way, on a command line or in a manifest. The caller knows the valid
//! names and options; errors list them.

use std::fmt::Display;
use std::str::FromStr;

/// Why a description is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The name is unknown.
    #[error("there is no {kind} {name:?}; choose one of {}", known.join(", "))]
    UnknownName { kind: &'static str, name: String, known: &'static [&'static str] },
    #[error("{name} has no option {option:?}; {}", options_of(known))]
    UnknownOption { name: String, option: String, known: &'static [&'static str] },
    /// An option is not `name=value`.
    #[error("{text:?} is no option of {name}; write it as OPTION=VALUE, several with commas between")]
    NotAnOption { name: String, text: String },
    /// An option is given twice.
    #[error("{name} has option {option} twice; leave one of them out")]
    Twice { name: String, option: String },
    /// The value of an option is invalid.
    #[error("{name}: {option}={value} is refused: {problem}")]
    Value { name: String, option: &'static str, value: String, problem: String },
    /// The options contradict each other.
    #[error("{name} is refused: {problem}")]
    Unfit { name: String, problem: String },
}

fn options_of(known: &[&str]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}

/// A name and its raw options.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    pub(crate) name: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Description<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, DescriptionError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let mut options: Vec<(&str, &str)> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((option, value)) = part.split_once('=') else {
                return Err(DescriptionError::NotAnOption { name: name.to_owned(), text: part.to_owned() });
            };
            let option = option.trim();
            if options.iter().any(|(other, _)| *other == option) {
                return Err(DescriptionError::Twice { name: name.to_owned(), option: option.to_owned() });
            }
            options.push((option, value.trim()));
        }
        Ok(Self { name, options })
    }

    /// Refuses unknown options.
    pub(crate) fn refuse_unknown(&self, known: &'static [&'static str]) -> Result<(), DescriptionError> {
        match self.options.iter().find(|(option, _)| !known.contains(option)) {
            Some((option, _)) => {
                let (name, option) = (self.name.to_owned(), (*option).to_owned());
                Err(DescriptionError::UnknownOption { name, option, known })
            }
            None => Ok(()),
        }
    }

    /// The value of an option, parsed by `read`, or the default.
    pub(crate) fn option<T>(
        &self,
        option: &'static str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, DescriptionError> {
        let Some((_, value)) = self.options.iter().find(|(other, _)| *other == option) else { return Ok(default) };
        read(value).map_err(|problem| {
            let (name, value) = (self.name.to_owned(), (*value).to_owned());
            DescriptionError::Value { name, option, value, problem }
        })
    }
}

/// Parses a whole number between two inclusive bounds.
pub(crate) fn whole<T: FromStr + PartialOrd + Display>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> {
    move |text| match text.parse::<T>() {
        Ok(value) if value >= least && value <= most => Ok(value),
        Ok(_) | Err(_) => Err(format!("write a whole number from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_alone_or_before_its_options() {
        assert_eq!(Description::parse("logistic").unwrap().options, []);
        let description = Description::parse("deepfm: dim = 8, hidden=64x32").unwrap();
        assert_eq!((description.name, &description.options[..]), ("deepfm", &[("dim", "8"), ("hidden", "64x32")][..]));
        assert_eq!(description.option("dim", 4, whole(1, 64)), Ok(8));
        assert_eq!(description.option("depth", 4, whole(1, 64)), Ok(4));
    }

    #[test]
    fn mistakes_are_answered_with_what_would_be_right() {
        let description = Description::parse("deepfm:dim=many").unwrap();
        let message = description.option("dim", 8_u32, whole(1, 512)).unwrap_err().to_string();
        assert_eq!(message, "deepfm: dim=many is refused: write a whole number from 1 to 512");
        let message = description.refuse_unknown(&["hidden"]).unwrap_err().to_string();
        assert_eq!(message, "deepfm has no option \"dim\"; it has hidden");
        let message = Description::parse("deepfm:dim").unwrap_err().to_string();
        assert_eq!(message, "\"dim\" is no option of deepfm; write it as OPTION=VALUE, several with commas between");
        let message = Description::parse("deepfm:dim=1,dim=2").unwrap_err().to_string();
        assert_eq!(message, "deepfm has option dim twice; leave one of them out");
    }
}
