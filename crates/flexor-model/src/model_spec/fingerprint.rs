//! A short hash that identifies a model.
//!
//! It is the first eight bytes, big-endian, of SHA-256 over a byte string. The byte string is `flexor-model-1`, a zero
//! byte, then little-endian: the seed (u64); the optimizer's name, its number of slots (u32) and their initial value
//! (f32); the number of variables (u32), and of each its name, its rank (u32), its sides (u64 each) and its initializer
//! as text; the number of tables (u32), and of each its name, its width (u32) and its initializer as text. A text is a
//! u32 length and that many bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ModelSpec;

/// The hash of a model, written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    pub(super) fn of(spec: &ModelSpec) -> Self {
        let mut hasher = FingerprintHasher(Sha256::new());
        hasher.0.update(b"flexor-model-1\0");
        hasher.0.update(spec.seed.to_le_bytes());
        hasher.text(spec.optimizer.name());
        hasher.count(spec.optimizer.slots().len());
        hasher.0.update(spec.optimizer.initial_slot().to_le_bytes());
        hasher.count(spec.variables.len());
        for variable in &spec.variables {
            hasher.text(&variable.name);
            hasher.count(variable.shape.len());
            variable.shape.iter().for_each(|side| hasher.0.update(side.to_le_bytes()));
            hasher.text(&variable.init.to_string());
        }
        hasher.count(spec.tables.len());
        for table in &spec.tables {
            hasher.text(&table.name);
            hasher.0.update(table.dim.to_le_bytes());
            hasher.text(&table.init.to_string());
        }
        let digest = hasher.0.finalize();
        Self(digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    fn count(&mut self, count: usize) {
        // No list or text of a checked specification is longer.
        self.0.update(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| format!("'{text}' is not a model fingerprint of 16 hexadecimal digits"))
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Initializer, Optimizer, TableSpec, VariableSpec};
    use super::*;

    fn model() -> ModelSpec {
        ModelSpec {
            variables: vec![VariableSpec { name: "w".into(), shape: vec![4, 2], init: Initializer::Ones }],
            tables: vec![TableSpec { name: "e".into(), dim: 4, init: Initializer::Zeros }],
            optimizer: Optimizer::adam(0.1),
            seed: 1,
        }
    }

    #[test]
    fn the_fingerprint_of_a_model_never_changes() {
        assert_eq!(model().fingerprint().to_string(), "05bed074570a9e60");
        assert_eq!("05bed074570a9e60".parse(), Ok(model().fingerprint()));
    }

    #[test]
    fn another_model_has_another_fingerprint_but_another_learning_rate_does_not() {
        let number = model().fingerprint();
        let changed = |change: fn(&mut ModelSpec)| {
            let mut model = model();
            change(&mut model);
            model.fingerprint()
        };
        assert_ne!(changed(|model| model.seed = 2), number);
        assert_ne!(changed(|model| model.variables[0].shape = vec![2, 4]), number);
        assert_ne!(changed(|model| model.tables[0].dim = 5), number);
        assert_ne!(changed(|model| model.optimizer = Optimizer::adagrad(0.1)), number);
        assert_ne!(changed(|model| model.tables[0].init = Initializer::Ones), number);
        assert_eq!(changed(|model| model.optimizer = Optimizer::adam(0.2)), number);
    }
}
