//! One case of the race.

use std::fmt;

use super::keys::Keys;

/// The requests to a server, and the number of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) dim: u32,
    pub(super) optimizer: Optimizer,
    /// Rows of a request.
    pub(super) batch: usize,
    pub(super) clients: usize,
    pub(super) keys: Keys,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optimizer {
    Sgd,
    Adagrad,
    Adam,
}

impl Case {
    /// How many bytes a row is: weights, slots and key.
    pub(super) fn payload(&self) -> f64 {
        let slots = match self.optimizer {
            Optimizer::Sgd => 0,
            Optimizer::Adagrad => 1,
            Optimizer::Adam => 2,
        };
        f64::from(8 + 4 * self.dim * (1 + slots))
    }
}

impl Optimizer {
    /// The form in which both servers take it.
    pub(super) fn arguments(self) -> (&'static str, &'static str) {
        match self {
            Self::Sgd => ("SGD", "learning_rate=0.1;momentum=0.0;nesterov=False;"),
            Self::Adagrad => ("Adagrad", "learning_rate=0.1;epsilon=1e-07;"),
            Self::Adam => ("Adam", "learning_rate=0.001;beta_1=0.9;beta_2=0.999;epsilon=1e-07;amsgrad=False;"),
        }
    }
}

impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.arguments().0)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dim, optimizer, batch, clients, keys } = self;
        write!(f, "dim {dim}, {optimizer}, {clients} clients, {batch} {keys} keys")
    }
}
