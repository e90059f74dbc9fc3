//! Stock PyTorch on the CPU, with `torchrun`, gloo and the TCPStore, in its own environment.
//!
//! The packages are PyPI's, which carries only the CUDA build. [`stubs`] replaces the CUDA libraries, because nothing
//! here calls them; that saves more than two gigabytes of download. Everything but CUDA works, and NCCL must not be
//! used. [`crate::torchrun`] starts torchrun as a node of a job.

mod stubs;

use std::ops::Deref;

use crate::python::{PythonEnv, PythonError, Recipe};

pub(crate) const RECIPE: Recipe = Recipe {
    name: "torch",
    version: "2.15.0",
    requirements: include_str!("../python/torch.txt"),
    finish: stubs::make,
    finish_texts: stubs::TEXTS,
    check: "\
import datetime, torch, torch.distributed as dist
assert dist.is_gloo_available() and not torch.cuda.is_available()
store = dist.TCPStore('127.0.0.1', 0, is_master=True, timeout=datetime.timedelta(seconds=10))
store.set('key', 'value')
assert store.get('key') == b'value'
import torch.distributed.run",
    first_time: "about 1.5 minutes and 550 MB",
};

/// The environment with torch.
#[derive(Debug, Clone)]
pub struct Torch {
    env: PythonEnv,
}

impl Torch {
    /// Torch from the cache, installed first where it is missing. Blocks for minutes on a machine's first call.
    pub fn ensure() -> Result<Self, PythonError> {
        Ok(Self { env: RECIPE.ensure()? })
    }
}

impl Deref for Torch {
    type Target = PythonEnv;

    fn deref(&self) -> &PythonEnv {
        &self.env
    }
}

/// Torch, or a skipped test where the machine has no Python to install it with. Any other trouble panics.
#[macro_export]
macro_rules! torch_or_skip {
    () => {
        match $crate::Torch::ensure() {
            Ok(torch) => torch,
            Err(missing @ $crate::PythonError::PythonMissing { .. }) => $crate::skip!("{missing}"),
            Err(error) => panic!("torch could not be installed: {error}"),
        }
    };
}
