//! A description of the differences between two models.

use std::fmt::Display;

use super::ModelSpec;

/// The most differences listed. A user who has fixed these sees the rest on the next attempt.
const MAX_LISTED: usize = 4;

/// Lists the differences that change the [`super::Fingerprint`]; `None` if there are none. `theirs` names the other
/// model in the text, as in "the checkpoint".
pub(super) fn differences(ours: &ModelSpec, other: &ModelSpec, theirs: &str) -> Option<String> {
    let mut list = DifferenceList { theirs, lines: Vec::new() };
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
    list.compare_lists(&tables(ours), &tables(other), "tables");
    list.compare_lists(&variables(ours), &variables(other), "variables");
    let slots = |spec: &ModelSpec| {
        let (name, slots) = (spec.optimizer.name(), spec.optimizer.slots());
        let state = if slots.is_empty() { "nothing".to_owned() } else { slots.join(" and ") };
        format!("{name}, which keeps {state} beginning with {}", spec.optimizer.initial_slot())
    };
    match ours.optimizer.name() == other.optimizer.name() {
        true => list.compare("optimizer", slots(ours), slots(other)),
        false => list.compare("optimizer", ours.optimizer.name(), other.optimizer.name()),
    }
    list.compare("seed", ours.seed, other.seed);
    let DifferenceList { lines, .. } = list;
    let more = lines.len().saturating_sub(MAX_LISTED);
    let mut text = lines.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    (!lines.is_empty()).then_some(text)
}

struct DifferenceList<'a> {
    theirs: &'a str,
    lines: Vec<String>,
}

impl DifferenceList<'_> {
    fn compare<T: PartialEq + Display>(&mut self, what: &str, ours: T, other: T) {
        if ours != other {
            self.lines.push(format!("{what}: {ours} here, {other} in {}", self.theirs));
        }
    }

    /// Compares lists of (name, size, initializer).
    fn compare_lists(&mut self, ours: &[(String, String, String)], other: &[(String, String, String)], what: &str) {
        let before = self.lines.len();
        for (name, size, init) in ours {
            match other.iter().find(|one| one.0 == *name) {
                None => self.lines.push(format!("{name}: here, not in {}", self.theirs)),
                Some((_, other_size, other_init)) => {
                    self.compare(name, size, other_size);
                    self.compare(&format!("{name} initializer"), init, other_init);
                }
            }
        }
        for (name, ..) in other.iter().filter(|one| !ours.iter().any(|own| own.0 == one.0)) {
            self.lines.push(format!("{name}: in {}, not here", self.theirs));
        }
        if before == self.lines.len() && ours != other {
            self.lines.push(format!("{what}: in another order than in {}", self.theirs));
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

    fn difference(change: fn(&mut ModelSpec)) -> String {
        let mut other = model();
        change(&mut other);
        let described = differences(&model(), &other, "the checkpoint");
        assert_eq!(
            described.is_some(),
            model().fingerprint() != other.fingerprint(),
            "as the fingerprints say: {described:?}"
        );
        described.unwrap_or_default()
    }

    #[test]
    fn a_difference_is_listed_with_both_values() {
        assert_eq!(difference(|_| {}), "");
        assert_eq!(difference(|other| other.optimizer = Optimizer::adam(0.3)), "");
        assert_eq!(
            difference(|other| other.tables[0].dim = 8),
            "table 'deep': width 4 here, width 8 in the checkpoint"
        );
        assert_eq!(
            difference(|other| other.variables[0].shape = vec![8]),
            "variable 'w': shape [4, 2] here, shape [8] in the checkpoint"
        );
        assert_eq!(
            difference(|other| other.optimizer = Optimizer::adagrad(0.1)),
            "optimizer: Adam here, Adagrad in the checkpoint"
        );
        assert_eq!(difference(|other| other.seed = 7), "seed: 1 here, 7 in the checkpoint");
        assert_eq!(difference(|other| other.tables.swap(0, 1)), "tables: in another order than in the checkpoint");
        assert_eq!(
            difference(|other| other.tables[1].name = "more".into()),
            "table 'wide': here, not in the checkpoint; table 'more': in the checkpoint, not here"
        );
        assert_eq!(
            difference(|other| other.tables[1].init = Initializer::Ones),
            "table 'wide' initializer: zeros here, ones in the checkpoint"
        );
    }

    #[test]
    fn a_long_list_of_differences_is_shortened() {
        let text = difference(|other| {
            other.tables.clear();
            other.variables.clear();
            other.seed = 2;
            other.optimizer = Optimizer::sgd(0.1);
        });
        assert!(text.ends_with("; and 1 more"), "{text}");
    }
}
