//! Environment strings: `k1=v1,k2=a,b,c`.
//!
//! A comma may stand inside a value: the key of the next pair is what follows the last comma before its `=`. So no
//! value can hold a `=`.

use super::value::{OptionValue, Refusal, Remark};
use crate::finding::quoted;

/// Variables in the order in which they were written, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envs(pub Vec<(String, String)>);

const EXAMPLE: &str = "KEY1=value1,KEY2=value2";

impl OptionValue for Envs {
    const EXPECTS: &'static str = "K1=V1[,K2=V2…]";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let mut envs = Self::default();
        if text.is_empty() {
            return Ok(envs);
        }
        let mut fields = text.split('=').peekable();
        let mut key = fields.next().unwrap_or_default();
        if fields.peek().is_none() {
            return Err(Refusal::invalid(format!("{} has no `=`", quoted(text)), format!("expected {EXAMPLE}")));
        }
        while let Some(field) = fields.next() {
            if fields.peek().is_none() {
                envs.set(key, field, remarks)?;
                break;
            }
            let (value, next) = field.rsplit_once(',').ok_or_else(|| {
                Refusal::invalid(
                    format!("the value of {} contains `=`", quoted(key)),
                    "values may contain commas but not `=`; set this variable in the image or in --cluster_spec_json",
                )
            })?;
            envs.set(key, value, remarks)?;
            key = next;
        }
        Ok(envs)
    }

    fn write(&self) -> String {
        self.0.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }
}

impl Envs {
    fn set(&mut self, key: &str, value: &str, remarks: &mut Vec<Remark>) -> Result<(), Refusal> {
        let key = key.trim();
        if !is_variable(key) {
            return Err(Refusal::invalid(
                format!("{} is not a valid environment variable name", quoted(key)),
                format!("must consist of letters, digits, `_`, `-` and `.`, as in {EXAMPLE}"),
            ));
        }
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => {
                remarks.push(Remark::replaced(format!("{} is given twice; the last value is used", quoted(key))));
                value.clone_into(old);
            }
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }
}

fn is_variable(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(inside) && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Envs, Refusal> {
        Envs::read(text, &mut Vec::new())
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        read(text).unwrap().0
    }

    #[test]
    fn commas_may_stand_inside_values() {
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        assert_eq!(pairs("a=1,b=2"), owned(&[("a", "1"), ("b", "2")]));
        assert_eq!(pairs("a=1,2,3,b=x,y"), owned(&[("a", "1,2,3"), ("b", "x,y")]));
        assert_eq!(pairs("a=, b="), owned(&[("a", ""), ("b", "")]));
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn the_last_of_two_equal_names_wins_and_said_so() {
        let mut remarks = Vec::new();
        assert_eq!(Envs::read("a=1,b=2,a=3", &mut remarks).unwrap().write(), "a=3,b=2");
        assert_eq!(remarks.len(), 1);
    }

    #[test]
    fn what_cannot_be_an_environment_is_refused() {
        for text in ["a", "a=b=c", "=1", "1a=2", "a,b=1", "ä=1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_what_is_accepted_is_printed_back(text in "[ab,= ]{0,12}|.{0,40}") {
            if let Ok(envs) = read(&text) {
                prop_assert_eq!(read(&envs.write()), Ok(envs));
            }
        }
    }
}
