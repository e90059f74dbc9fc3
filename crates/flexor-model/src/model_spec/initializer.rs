//! Initializers under Keras' names.
//!
//! They are written as text everywhere: `zeros`, `uniform(-0.05, 0.05)`, `glorot_uniform`. `flexor-ps`
//! computes the values.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Initializer {
    Zeros,
    Ones,
    Constant(f32),
    /// Uniform in [low, high).
    Uniform {
        low: f32,
        high: f32,
    },
    Normal {
        mean: f32,
        std: f32,
    },
    /// Normal, truncated at two standard deviations from the mean.
    TruncatedNormal {
        mean: f32,
        /// The standard deviation before truncation.
        std: f32,
    },
    /// Uniform within ±√(6 / (fan in + fan out)).
    GlorotUniform,
    /// Truncated normal with the deviation √(2 / (fan in + fan out)) after truncation.
    GlorotNormal,
    /// Uniform within ±√(6 / fan in).
    HeUniform,
    /// Truncated normal with the deviation √(2 / fan in) after truncation.
    HeNormal,
    /// Uniform within ±√(3 / fan in).
    LecunUniform,
    /// Truncated normal with the deviation √(1 / fan in) after truncation.
    LecunNormal,
}

/// The initializer is unknown or has invalid parameters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InitializerError {
    #[error(
        "no initializer '{0}'; there are zeros, ones, constant(X), uniform(LOW, HIGH), normal(MEAN, STD), \
         truncated_normal(MEAN, STD), glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform and lecun_normal"
    )]
    Unknown(String),
    #[error("'{0}' is not a name with numbers in brackets, such as uniform(-0.05, 0.05)")]
    Numbers(String),
    #[error("{0} needs finite numbers, a lower end below the upper one, and a deviation that is not negative")]
    Invalid(String),
}

impl Initializer {
    /// Keras' `uniform`.
    pub const UNIFORM: Self = Self::Uniform { low: -0.05, high: 0.05 };
    /// Keras' `normal`.
    pub const NORMAL: Self = Self::Normal { mean: 0.0, std: 0.05 };

    pub(super) fn check(&self) -> Result<(), InitializerError> {
        let is_valid = match *self {
            Self::Constant(value) => value.is_finite(),
            Self::Uniform { low, high } => low < high && (high - low).is_finite(),
            Self::Normal { mean, std } | Self::TruncatedNormal { mean, std } => {
                mean.is_finite() && std.is_finite() && std >= 0.0
            }
            Self::Zeros
            | Self::Ones
            | Self::GlorotUniform
            | Self::GlorotNormal
            | Self::HeUniform
            | Self::HeNormal
            | Self::LecunUniform
            | Self::LecunNormal => true,
        };
        if is_valid { Ok(()) } else { Err(InitializerError::Invalid(self.to_string())) }
    }
}

impl fmt::Display for Initializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros"),
            Self::Ones => f.write_str("ones"),
            Self::Constant(value) => write!(f, "constant({value})"),
            Self::Uniform { low, high } => write!(f, "uniform({low}, {high})"),
            Self::Normal { mean, std } => write!(f, "normal({mean}, {std})"),
            Self::TruncatedNormal { mean, std } => write!(f, "truncated_normal({mean}, {std})"),
            Self::GlorotUniform => f.write_str("glorot_uniform"),
            Self::GlorotNormal => f.write_str("glorot_normal"),
            Self::HeUniform => f.write_str("he_uniform"),
            Self::HeNormal => f.write_str("he_normal"),
            Self::LecunUniform => f.write_str("lecun_uniform"),
            Self::LecunNormal => f.write_str("lecun_normal"),
        }
    }
}

impl FromStr for Initializer {
    type Err = InitializerError;

    /// Accepts our own spelling and those of Keras. Case, underscores and a leading `random` are ignored; missing
    /// numbers are Keras' defaults.
    fn from_str(text: &str) -> Result<Self, InitializerError> {
        let numbers_of = || InitializerError::Numbers(text.to_owned());
        let (name, numbers) = match text.trim().split_once('(') {
            None => (text.trim(), Vec::new()),
            Some((name, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(numbers_of)?;
                let parsed = inside.split(',').map(|number| number.trim().parse::<f32>());
                (name, parsed.collect::<Result<Vec<_>, _>>().map_err(|_| numbers_of())?)
            }
        };
        let plain = name.trim().replace('_', "").to_ascii_lowercase();
        let initializer = match (plain.strip_prefix("random").unwrap_or(&plain), numbers.as_slice()) {
            ("zeros" | "zero", []) => Self::Zeros,
            ("ones" | "one", []) => Self::Ones,
            ("constant", []) => Self::Zeros,
            ("constant", &[value]) => Self::Constant(value),
            ("uniform", []) => Self::UNIFORM,
            ("uniform", &[low, high]) => Self::Uniform { low, high },
            ("normal", []) => Self::NORMAL,
            ("normal", &[mean, std]) => Self::Normal { mean, std },
            ("truncatednormal" | "truncated", []) => Self::TruncatedNormal { mean: 0.0, std: 0.05 },
            ("truncatednormal" | "truncated", &[mean, std]) => Self::TruncatedNormal { mean, std },
            ("glorotuniform" | "xavieruniform" | "xavier", []) => Self::GlorotUniform,
            ("glorotnormal" | "xaviernormal", []) => Self::GlorotNormal,
            ("heuniform", []) => Self::HeUniform,
            ("henormal", []) => Self::HeNormal,
            ("lecununiform", []) => Self::LecunUniform,
            ("lecunnormal", []) => Self::LecunNormal,
            (_, []) => return Err(InitializerError::Unknown(text.to_owned())),
            (_, [..]) => return Err(numbers_of()),
        };
        initializer.check().map(|()| initializer)
    }
}

impl TryFrom<String> for Initializer {
    type Error = InitializerError;

    fn try_from(text: String) -> Result<Self, InitializerError> {
        text.parse()
    }
}

impl From<Initializer> for String {
    fn from(initializer: Initializer) -> Self {
        initializer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keras_are_parsed() {
        let same = |texts: &[&str], wanted: Initializer| {
            texts.iter().for_each(|text| assert_eq!(text.parse(), Ok(wanted), "{text}"));
        };
        same(&["uniform", "RandomUniform", "random_uniform"], Initializer::UNIFORM);
        same(&["normal", "RandomNormal", "random_normal"], Initializer::NORMAL);
        same(&["zeros", "Zeros", "zero"], Initializer::Zeros);
        same(&["ones", "Ones"], Initializer::Ones);
        same(&["TruncatedNormal", "truncated_normal"], Initializer::TruncatedNormal { mean: 0.0, std: 0.05 });
        same(&["glorot_uniform", "GlorotUniform"], Initializer::GlorotUniform);
        same(&["constant(0.5)", "Constant( 0.5 )"], Initializer::Constant(0.5));
        same(&["uniform(-1,1)"], Initializer::Uniform { low: -1.0, high: 1.0 });
    }

    #[test]
    fn an_invalid_initializer_is_rejected_with_a_valid_example() {
        let refusal = |text: &str| text.parse::<Initializer>().unwrap_err().to_string();
        assert!(refusal("orthogonal").contains("no initializer 'orthogonal'; there are zeros"));
        assert!(refusal("uniform(1)").contains("uniform(-0.05, 0.05)"));
        assert!(refusal("uniform(1, x)").contains("uniform(-0.05, 0.05)"));
        assert!(refusal("uniform(1, 1)").contains("a lower end below"));
        assert!(refusal("normal(0, -1)").contains("not negative"));
        assert!(refusal("constant(inf)").contains("finite"));
    }

    #[test]
    fn a_printed_initializer_parses_back() {
        for text in ["constant(0.1)", "uniform(-0.3, 0.25)", "truncated_normal(0, 0.01)", "he_normal", "lecun_uniform"]
        {
            assert_eq!(text.parse::<Initializer>().unwrap().to_string(), text);
        }
    }
}
