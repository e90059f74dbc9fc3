//! Stock DLRover, the release that the benchmarks compare with, in its own Python environment.
//!
//! The environment has no torch. The master does not need it, and the agents of this release do not work with the
//! pinned torch unless a test starts their master by hand.

use std::ops::Deref;

use crate::python::{PythonEnv, PythonError, Recipe};

pub(crate) const RECIPE: Recipe = Recipe {
    name: "dlrover",
    version: "0.6.1",
    requirements: include_str!("../python/dlrover.txt"),
    finish: |_, _| Ok(()),
    finish_texts: &[],
    check: "import dlrover.python.master.main, dlrover.python.elastic_agent.master_client",
    first_time: "about 1 minute and 60 MB",
};

/// The environment with DLRover.
#[derive(Debug, Clone)]
pub struct Dlrover {
    env: PythonEnv,
}

impl Dlrover {
    /// DLRover from the cache, installed first where it is missing. Blocks for a minute on a machine's first call.
    pub fn ensure() -> Result<Self, PythonError> {
        Ok(Self { env: RECIPE.ensure()? })
    }
}

impl Deref for Dlrover {
    type Target = PythonEnv;

    fn deref(&self) -> &PythonEnv {
        &self.env
    }
}

/// DLRover, or a skipped test where the machine has no Python to install it with. Any other trouble panics.
#[macro_export]
macro_rules! dlrover_or_skip {
    () => {
        match $crate::Dlrover::ensure() {
            Ok(dlrover) => dlrover,
            Err(missing @ $crate::PythonError::PythonMissing { .. }) => $crate::skip!("{missing}"),
            Err(error) => panic!("DLRover could not be installed: {error}"),
        }
    };
}
