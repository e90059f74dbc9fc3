//! What makes two models different, in words.

use std::fmt::Display;

use super::ModelSpec;

/// How many differences are told; somebody who has mended those sees the rest.
const TOLD: usize = 4;

/// What is different between two models as [`super::Fingerprint`] sees it; nothing where they fit together. `theirs` is
/// how the other one is called, as in "the checkpoint".
pub(super) fn differences(ours: &ModelSpec, other: &ModelSpec, theirs: &str) -> Option<String> {
    let mut found = Found { theirs, told: Vec::new() };
    let tables = |spec: &ModelSpec| -> Vec<(String, String, String)> {
        let one = |table: &super::TableSpec| {
            (format!("table '{}'", table.name), format!("width {}", table.dim), table.init.to_string())
        };
        spec.tables.iter().map(one).collect()
    };
    let variables = |spec: &ModelSpec| -> Vec<(String, String, String)> {
        let one = |variable: &super::VariableSpec| {
            (format!("variable '{}'", variable.name), format!("shape {:?}", variable.shape), variable.init.to_string())
        };
        spec.variables.iter().map(one).collect()
    };
    found.in_list(&tables(ours), &tables(other), "tables");
    found.in_list(&variables(ours), &variables(other), "variables");
    let slots = |spec: &ModelSpec| {
        let (name, slots) = (spec.optimizer.name(), spec.optimizer.slots());
        let state = if slots.is_empty() { "nothing".to_owned() } else { slots.join(" and ") };
        format!("{name}, which keeps {state} beginning with {}", spec.optimizer.initial_slot())
    };
    match ours.optimizer.name() == other.optimizer.name() {
        true => found.compare("optimizer", slots(ours), slots(other)),
        false => found.compare("optimizer", ours.optimizer.name(), other.optimizer.name()),
    }
    found.compare("seed", ours.seed, other.seed);
    let Found { told, .. } = found;
    let more = told.len().saturating_sub(TOLD);
    let mut text = told.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    (!told.is_empty()).then_some(text)
}

struct Found<'a> {
    theirs: &'a str,
    told: Vec<String>,
}

impl Found<'_> {
    fn compare<T: PartialEq + Display>(&mut self, what: &str, ours: T, other: T) {
        if ours != other {
            self.told.push(format!("{what}: {ours} here, {other} in {}", self.theirs));
        }
    }

    /// Compares things of a name, a size and an initial value.
    fn in_list(&mut self, ours: &[(String, String, String)], other: &[(String, String, String)], what: &str) {
        let told = self.told.len();
        for (name, size, init) in ours {
            match other.iter().find(|one| one.0 == *name) {
                None => self.told.push(format!("{name}: here, not in {}", self.theirs)),
                Some((_, other_size, other_init)) => {
                    self.compare(name, size, other_size);
                    self.compare(&format!("{name} begins with"), init, other_init);
                }
            }
        }
        for (name, ..) in other.iter().filter(|one| !ours.iter().any(|own| own.0 == one.0)) {
            self.told.push(format!("{name}: in {}, not here", self.theirs));
        }
        if told == self.told.len() && ours != other {
            self.told.push(format!("{what}: in another order than in {}", self.theirs));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Initializer, Optimizer, TableSpec, VariableSpec};
    use super::*;

    fn model() -> ModelSpec {
        let table = |name: &str| TableSpec { name: name.into(), dim: 4, init: Initializer::Zeros };
        ModelSpec {
            variables: vec![VariableSpec { name: "w".into(), shape: vec![4, 2], init: Initializer::Ones }],
            tables: vec![table("deep"), table("wide")],
            optimizer: Optimizer::adam(0.1),
            seed: 1,
        }
    }

    fn told(change: fn(&mut ModelSpec)) -> String {
        let mut other = model();
        change(&mut other);
        let told = differences(&model(), &other, "the checkpoint");
        assert_eq!(told.is_some(), model().fingerprint() != other.fingerprint(), "as the number says: {told:?}");
        told.unwrap_or_default()
    }

    #[test]
    fn what_is_different_is_named_with_both_values() {
        assert_eq!(told(|_| {}), "");
        assert_eq!(told(|other| other.optimizer = Optimizer::adam(0.3)), "");
        assert_eq!(told(|other| other.tables[0].dim = 8), "table 'deep': width 4 here, width 8 in the checkpoint");
        assert_eq!(
            told(|other| other.variables[0].shape = vec![8]),
            "variable 'w': shape [4, 2] here, shape [8] in the checkpoint"
        );
        assert_eq!(
            told(|other| other.optimizer = Optimizer::adagrad(0.1)),
            "optimizer: Adam here, Adagrad in the checkpoint"
        );
        assert_eq!(told(|other| other.seed = 7), "seed: 1 here, 7 in the checkpoint");
        assert_eq!(told(|other| other.tables.swap(0, 1)), "tables: in another order than in the checkpoint");
        assert_eq!(
            told(|other| other.tables[1].name = "more".into()),
            "table 'wide': here, not in the checkpoint; table 'more': in the checkpoint, not here"
        );
        assert_eq!(
            told(|other| other.tables[1].init = Initializer::Ones),
            "table 'wide' begins with: zeros here, ones in the checkpoint"
        );
    }

    #[test]
    fn of_many_differences_some_are_told() {
        let told = told(|other| {
            other.tables.clear();
            other.variables.clear();
            other.seed = 2;
            other.optimizer = Optimizer::sgd(0.1);
        });
        assert!(told.ends_with("; and 1 more"), "{told}");
    }
}
