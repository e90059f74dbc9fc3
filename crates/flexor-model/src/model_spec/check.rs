//! Validation of a specification.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{InitializerError, ModelSpec, OptimizerError};

/// The longest name of a variable or table, in bytes.
pub const MAX_NAME: usize = 256;
/// The widest row of a table.
pub const MAX_DIM: u32 = 1 << 16;
/// The most elements of a variable. A partition's share of such a variable, which one push carries whole, takes half a
/// message.
pub const MAX_ELEMENTS: u64 = 1 << 31;
/// The most elements of all variables together.
const MAX_MODEL_ELEMENTS: u64 = 1 << 36;
/// The longest declaration, in bytes.
pub const MAX_JSON: usize = 32 << 20;
/// The most sides of a variable's shape.
pub const MAX_RANK: usize = 16;
/// The most variables, and the most tables.
const MAX_ENTRIES: usize = 1 << 16;

/// The specification is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    #[error(
        "'{0}' cannot be the name of a variable or table: it needs 1 to {MAX_NAME} bytes, no control characters and no '@'"
    )]
    Name(String),
    #[error("'{0}' is declared twice; variables and tables share one set of names")]
    Twice(String),
    #[error("a model is a JSON object with variables, tables, optimizer and seed: {0}")]
    Unreadable(String),
    #[error("a model is declared in at most {MAX_JSON} bytes, not in {0}")]
    TooLong(usize),
    #[error("the variables have {0} elements together; at most {MAX_MODEL_ELEMENTS} are possible")]
    Elements(u64),
    #[error("a model has at most {MAX_ENTRIES} variables and as many tables")]
    TooMany,
    #[error("table '{table}' has rows of {dim} values; 1 to {MAX_DIM} are possible")]
    Dim { table: String, dim: u32 },
    #[error(
        "variable '{variable}' has the shape {shape:?}; 1 to {MAX_ELEMENTS} elements with at most {MAX_RANK} sides are possible"
    )]
    Shape { variable: String, shape: Vec<u64> },
    #[error("the initializer of '{name}' is invalid: {why}")]
    Initial { name: String, why: InitializerError },
    #[error("the optimizer is invalid: {0}")]
    Optimizer(#[from] OptimizerError),
}

pub(super) fn check(spec: &ModelSpec) -> Result<(), SpecError> {
    if spec.variables.len() > MAX_ENTRIES || spec.tables.len() > MAX_ENTRIES {
        return Err(SpecError::TooMany);
    }
    spec.optimizer.check()?;
    let variables = spec.variables.iter().map(|variable| (&variable.name, &variable.init));
    let tables = spec.tables.iter().map(|table| (&table.name, &table.init));
    let mut names = BTreeSet::new();
    for (name, init) in variables.chain(tables) {
        if name.is_empty() || name.len() > MAX_NAME || name.contains(|c: char| c.is_control() || c == '@') {
            return Err(SpecError::Name(name.clone()));
        }
        if !names.insert(name) {
            return Err(SpecError::Twice(name.clone()));
        }
        init.check().map_err(|why| SpecError::Initial { name: name.clone(), why })?;
    }
    if let Some(table) = spec.tables.iter().find(|table| !(1..=MAX_DIM).contains(&table.dim)) {
        return Err(SpecError::Dim { table: table.name.clone(), dim: table.dim });
    }
    let possible = |shape: &[u64], elements: u64| shape.len() <= MAX_RANK && (1..=MAX_ELEMENTS).contains(&elements);
    if let Some(variable) = spec.variables.iter().find(|variable| !possible(&variable.shape, variable.elements())) {
        return Err(SpecError::Shape { variable: variable.name.clone(), shape: variable.shape.clone() });
    }
    match spec.variables.iter().fold(0, |sum: u64, variable| sum.saturating_add(variable.elements())) {
        elements if elements > MAX_MODEL_ELEMENTS => Err(SpecError::Elements(elements)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Initializer, Optimizer, TableSpec, VariableSpec};
    use super::*;

    fn model() -> ModelSpec {
        ModelSpec {
            variables: vec![VariableSpec { name: "bias".into(), shape: vec![], init: Initializer::Zeros }],
            tables: vec![TableSpec { name: "users".into(), dim: 8, init: Initializer::UNIFORM }],
            optimizer: Optimizer::sgd(0.1),
            seed: 7,
        }
    }

    fn refusal(change: impl FnOnce(&mut ModelSpec)) -> String {
        let mut model = model();
        change(&mut model);
        model.check().unwrap_err().to_string()
    }

    #[test]
    fn a_valid_model_is_accepted() {
        assert_eq!(model().check(), Ok(()));
        assert_eq!(model().variables[0].elements(), 1);
    }

    #[test]
    fn an_invalid_entry_is_rejected_by_name() {
        assert!(refusal(|model| model.tables[0].name = "bias".into()).contains("'bias' is declared twice"));
        assert!(refusal(|model| model.tables[0].name = "a@b".into()).contains("'a@b' cannot be the name"));
        assert!(refusal(|model| model.tables[0].dim = 0).contains("'users' has rows of 0 values"));
        assert!(refusal(|model| model.variables[0].shape = vec![3, 0]).contains("'bias' has the shape [3, 0]"));
        assert!(refusal(|model| model.variables[0].shape = vec![u64::MAX, u64::MAX]).contains("'bias'"));
        assert!(refusal(|model| model.tables[0].init = Initializer::Constant(f32::NAN)).contains("'users'"));
        assert!(refusal(|model| model.optimizer = Optimizer::sgd(-1.0)).contains("learning rate"));
    }

    #[test]
    fn a_specification_reads_back_as_it_was_written() {
        let text = serde_json::to_string(&model()).unwrap();
        assert_eq!(serde_json::from_str::<ModelSpec>(&text).unwrap(), model());
        assert!(text.contains(r#""init":"uniform(-0.05, 0.05)""#), "{text}");
    }

    #[test]
    fn text_that_is_no_model_is_refused_whatever_it_is() {
        let deep = "[".repeat(100_000);
        let huge = r#"{"variables":[{"name":"w","shape":[4294967296,4294967296,4294967296],"init":"zeros"}],"tables":[],"optimizer":{"kind":"sgd","learningRate":0.1},"seed":1}"#;
        for wrong in ["", "[", "{}", "null", "{\"a\":1}", deep.as_str(), huge] {
            assert!(ModelSpec::parse(wrong).is_err(), "{}", &wrong[..wrong.len().min(80)]);
        }
        assert!(matches!(ModelSpec::parse(huge), Err(SpecError::Shape { .. })), "2^96 elements");
        assert_eq!(ModelSpec::parse(&" ".repeat(MAX_JSON + 1)), Err(SpecError::TooLong(MAX_JSON + 1)));
        let spec = ModelSpec { variables: vec![], tables: vec![], optimizer: Optimizer::sgd(0.1), seed: 1 };
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(ModelSpec::parse(&json), Ok(spec));
    }

    #[test]
    fn variables_are_bounded_together() {
        let variable = |index: usize| VariableSpec {
            name: format!("w{index}"),
            shape: vec![MAX_ELEMENTS],
            init: Initializer::Zeros,
        };
        let spec = |count: usize| ModelSpec {
            variables: (0..count).map(variable).collect(),
            tables: vec![],
            optimizer: Optimizer::sgd(0.1),
            seed: 1,
        };
        assert_eq!(spec(32).check(), Ok(()));
        assert!(matches!(spec(33).check(), Err(SpecError::Elements(_))));
    }

    /// The checked-in inputs of the fuzz target `model_spec`.
    #[test]
    fn only_the_good_model_of_the_corpus_is_taken() {
        let taken = |text: &str| ModelSpec::parse(text).is_ok();
        assert!(taken(include_str!("../../../../fuzz/corpus/model_spec/model")));
        for wrong in [
            include_str!("../../../../fuzz/corpus/model_spec/empty_object"),
            include_str!("../../../../fuzz/corpus/model_spec/bracket"),
            include_str!("../../../../fuzz/corpus/model_spec/many_brackets"),
            include_str!("../../../../fuzz/corpus/model_spec/two_to_the_96"),
            include_str!("../../../../fuzz/corpus/model_spec/one_name_twice"),
        ] {
            assert!(!taken(wrong), "{}", &wrong[..wrong.len().min(80)]);
        }
    }
}
