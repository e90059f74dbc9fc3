//! The model of a job, declared once and equal on every server and worker.
//!
//! The master reads and bounds a declaration before it is the job's, because every server would fail on a bad one.
//! A model declares its dense variables, its embedding tables, their initializers and the optimizer. Servers build
//! their state from the declaration, workers compare it with their own, and checkpoints contain it. Variables and
//! tables are identified by their index, so the order is part of the declaration.
//!
//! It is *not* about the computation of a model: servers do not know what a variable is for.

mod check;
mod differences;
mod elasticdl_arguments;
mod fingerprint;
mod initializer;
mod optimizer;

use serde::{Deserialize, Serialize};

pub use check::{MAX_DIM, MAX_ELEMENTS, MAX_JSON, MAX_NAME, MAX_RANK, SpecError};
pub use fingerprint::Fingerprint;
pub use initializer::{Initializer, InitializerError};
pub use optimizer::{Optimizer, OptimizerError};

/// A model as parameter servers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSpec {
    /// Dense variables. All elements exist from the start.
    pub variables: Vec<VariableSpec>,
    /// Embedding tables. A row exists after its first training pull or push.
    pub tables: Vec<TableSpec>,
    pub optimizer: Optimizer,
    /// The seed of all initial values.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VariableSpec {
    /// Unique among variables and tables.
    pub name: String,
    /// Row-major; empty for a scalar.
    pub shape: Vec<u64>,
    pub init: Initializer,
}

/// An embedding table: a row of `dim` values per trained key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TableSpec {
    /// Unique among variables and tables.
    pub name: String,
    pub dim: u32,
    pub init: Initializer,
}

impl VariableSpec {
    /// The number of elements. Saturates for a specification that was not checked.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, side| product.saturating_mul(*side))
    }
}

impl ModelSpec {
    /// Reads a declared model. Rejects text that is no model, and a model that no server could hold.
    pub fn parse(json: &str) -> Result<Self, SpecError> {
        if json.len() > MAX_JSON {
            return Err(SpecError::TooLong(json.len()));
        }
        let spec: Self = serde_json::from_str(json).map_err(|error| SpecError::Unreadable(error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    /// Rejects a model that no server could hold.
    pub fn check(&self) -> Result<(), SpecError> {
        check::check(self)
    }

    /// A short hash of the model. Servers, workers and checkpoints fit together exactly if it is equal.
    ///
    /// It covers names, order, shapes, widths, initializers, the seed, and the kind of the optimizer with its slots. It
    /// omits what may change between two runs of the same model: the learning rate and the other hyperparameters of the
    /// optimizer. `docs/reference/formats.md` lists the hashed bytes.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }

    /// Describes the differences to `other` in words; `None` if the fingerprints are equal. `theirs` names the other
    /// model in the text, as in "the checkpoint".
    pub fn differences(&self, other: &Self, theirs: &str) -> Option<String> {
        differences::differences(self, other, theirs)
    }

    /// Whether this model is `older` with zero or more variables and tables appended.
    pub fn extends(&self, older: &Self) -> bool {
        self.variables.starts_with(&older.variables)
            && self.tables.starts_with(&older.tables)
            && self.optimizer == older.optimizer
            && self.seed == older.seed
    }
}
