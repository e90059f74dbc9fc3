//! Parameter strings: `k=v; k2=v2`.
//!
//! The values are Python and belong to the user's own functions, so the text is kept as it is; only its shape is
//! checked. `--aux_params` has the same shape and is for ElasticDL itself.

use super::value::{OptionValue, Refusal, Remark};
use crate::finding::quoted;

/// Parameters for a function of the user's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(String);

/// What `--aux_params` can say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuxParams {
    /// A pod whose program failed is not replaced.
    pub disable_relaunch: bool,
}

impl Params {
    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl OptionValue for Params {
    const EXPECTS: &'static str = "K1=V1[; K2=V2…]";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        pairs(text).try_for_each(|pair| pair.map(|_| ()))?;
        Ok(Self(text.to_owned()))
    }

    fn write(&self) -> String {
        self.0.clone()
    }
}

impl OptionValue for AuxParams {
    const EXPECTS: &'static str = "disable_relaunch=True|False";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let mut params = Self::default();
        for pair in pairs(text) {
            match pair? {
                ("disable_relaunch", value) => params.disable_relaunch = bool::read(value, remarks)?,
                (other, _) => {
                    remarks.push(Remark::unused(format!("unknown parameter {}, ignored", quoted(other))));
                }
            }
        }
        if params.disable_relaunch {
            remarks.push(Remark::replaced(
                "disable_relaunch stops retries of a failed program; a pod lost to preemption or deletion is replaced",
            ));
        }
        Ok(params)
    }

    fn write(&self) -> String {
        if self.disable_relaunch { "disable_relaunch=True".to_owned() } else { String::new() }
    }
}

/// Each `key=value`, or why it is none.
fn pairs(text: &str) -> impl Iterator<Item = Result<(&str, &str), Refusal>> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
        part.split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            .filter(|(key, _)| is_identifier(key))
            .ok_or_else(|| {
                Refusal::invalid(
                    format!("{} is not of the form name=value", quoted(part)),
                    "expected parameters such as `hidden=64; activation='relu'`",
                )
            })
    })
}

/// A name that Python takes as a keyword argument.
fn is_identifier(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_numeric())
        && !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_kept_as_they_are_if_their_shape_is_right() {
        for text in ["", "a=1", "a=1; b='x=y' ;", "columns=['c1', 'c2']; sep=','"] {
            assert_eq!(Params::read(text, &mut Vec::new()).map(|params| params.write()), Ok(text.to_owned()));
        }
        for text in ["a", "a=1; b", "=1", "1a=2", "a b=1"] {
            assert!(Params::read(text, &mut Vec::new()).unwrap_err().help.contains("hidden=64"), "{text}");
        }
    }

    #[test]
    fn the_one_auxiliary_parameter_is_understood_and_others_are_remarked_on() {
        let mut remarks = Vec::new();
        let params = AuxParams::read("disable_relaunch=True; verbose=1", &mut remarks).unwrap();
        assert_eq!((params.disable_relaunch, params.write().as_str()), (true, "disable_relaunch=True"));
        assert_eq!(remarks.len(), 2);
        assert_eq!(AuxParams::read("", &mut remarks), Ok(AuxParams::default()));
    }
}
