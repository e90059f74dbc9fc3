//! What a job trains, declared once and equal on every server and worker.
//!
//! A model declares its dense variables and embedding tables here, with how their values begin and how they are moved
//! by gradients. Servers build their state from it, workers check that they speak of the same model, checkpoints carry
//! it. Variables and tables are known by their place in the lists, so the order is part of the declaration.
//!
//! It is *not* for how a model computes: servers never know what a variable is for.

mod check;
mod differences;
mod elasticdl_arguments;
mod fingerprint;
mod initializer;
mod optimizer;

use serde::{Deserialize, Serialize};

pub use check::{MAX_DIM, MAX_ELEMENTS, MAX_NAME, MAX_RANK, SpecError};
pub use fingerprint::Fingerprint;
pub use initializer::{Initializer, InitializerError};
pub use optimizer::{Optimizer, OptimizerError};

/// A model, as servers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSpec {
    /// Dense variables: all of their elements exist from the beginning.
    pub variables: Vec<VariableSpec>,
    /// Embedding tables: a row exists once it was first trained on.
    pub tables: Vec<TableSpec>,
    /// How gradients move values.
    pub optimizer: Optimizer,
    /// What all initial values are drawn from.
    pub seed: u64,
}

/// A dense variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VariableSpec {
    /// Its name; unique among variables and tables.
    pub name: String,
    /// Its shape, row-major. A scalar has none.
    pub shape: Vec<u64>,
    /// How its values begin.
    pub init: Initializer,
}

/// An embedding table: a row of `dim` values for every key that training has met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TableSpec {
    /// Its name; unique among variables and tables.
    pub name: String,
    /// How many values a row has.
    pub dim: u32,
    /// How the values of a row begin.
    pub init: Initializer,
}

impl VariableSpec {
    /// How many elements it has. Only to be trusted of a checked specification.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, side| product.saturating_mul(*side))
    }
}

impl ModelSpec {
    /// Refuses what no server could hold, before anything is made of it.
    pub fn check(&self) -> Result<(), SpecError> {
        check::check(self)
    }

    /// A short number of the model: equal exactly where servers, workers and checkpoints fit together.
    ///
    /// It covers names, order, shapes, widths, initial values, the seed, and the kind of the optimizer with the state
    /// that it keeps. It leaves out what may be changed between two runs of the same model: the learning rate and the
    /// other numbers of the optimizer. The bytes that are hashed stand in `docs/reference/formats.md`.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self)
    }

    /// What makes this another model than `other`, in words; nothing where they have the same number. `theirs` is how the
    /// other one is called, as in "the checkpoint".
    pub fn differences(&self, other: &Self, theirs: &str) -> Option<String> {
        differences::differences(self, other, theirs)
    }

    /// Whether this is `older` with perhaps more variables and tables behind those of `older`.
    pub fn extends(&self, older: &Self) -> bool {
        self.variables.starts_with(&older.variables)
            && self.tables.starts_with(&older.tables)
            && self.optimizer == older.optimizer
            && self.seed == older.seed
    }
}
