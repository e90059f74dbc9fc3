//! How values begin: drawn from seed, name, key and element, so that the order in which rows are met does not matter.

use flexor_ps::spec::{Initializer, TableSpec, VariableSpec};

use crate::features::{crossed, key};

/// How the values of one variable or table begin.
pub(super) struct Initial {
    rule: Initializer,
    inputs: f32,
    outputs: f32,
    stream: u64,
}

impl Initial {
    pub(super) fn of_variable(variable: &VariableSpec, seed: u64) -> Self {
        let (inputs, outputs) = match *variable.shape.as_slice() {
            [.., inputs, outputs] => (inputs, outputs),
            [only] => (only, only),
            [] => (1, 1),
        };
        Self::new(&variable.name, variable.init, inputs as f32, outputs as f32, seed)
    }

    pub(super) fn of_table(table: &TableSpec, seed: u64) -> Self {
        Self::new(&table.name, table.init, 1.0, table.dim as f32, seed)
    }

    fn new(name: &str, rule: Initializer, inputs: f32, outputs: f32, seed: u64) -> Self {
        Self { rule, inputs, outputs, stream: crossed(seed, key(0, name.as_bytes())) }
    }

    /// Fills in the values of a row.
    pub(super) fn fill(&self, row: u64, values: &mut [f32]) {
        let row = crossed(self.stream, row);
        for (element, value) in values.iter_mut().enumerate() {
            *value = self.draw(crossed(row, element as u64));
        }
    }

    fn draw(&self, bits: u64) -> f32 {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let within = |limit: f32| limit * (2.0 * unit(bits) - 1.0);
        match self.rule {
            Initializer::Zeros => 0.0,
            Initializer::Ones => 1.0,
            Initializer::Constant(value) => value,
            Initializer::Uniform { low, high } => low + (high - low) * unit(bits),
            Initializer::Normal { mean, std } | Initializer::TruncatedNormal { mean, std } => mean + std * bell(bits),
            Initializer::GlorotUniform => within((6.0 / (inputs + outputs)).sqrt()),
            Initializer::HeUniform => within((6.0 / inputs).sqrt()),
            Initializer::LecunUniform => within((3.0 / inputs).sqrt()),
            Initializer::GlorotNormal => (2.0 / (inputs + outputs)).sqrt() * bell(bits),
            Initializer::HeNormal => (2.0 / inputs).sqrt() * bell(bits),
            Initializer::LecunNormal => (1.0 / inputs).sqrt() * bell(bits),
        }
    }
}

/// A number from 0 to 1.
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 / (1 << 24) as f32
}

/// A number with mean 0 and deviation 1, near enough to a normal one: the sum of twelve even ones.
fn bell(bits: u64) -> f32 {
    (0..12).map(|at| unit(crossed(bits, at))).sum::<f32>() - 6.0
}
