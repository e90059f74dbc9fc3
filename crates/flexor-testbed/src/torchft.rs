//! Stock torchft, the library whose replica groups continue when one of them dies, in its own environment.
//!
//! Torch itself is [`crate::Torch`]'s; its Python runs a program that needs both ([`Torchft::command`]).

use std::{ops::Deref, process::Command};

use crate::{
    python::{PythonEnv, PythonError, Recipe},
    torch::Torch,
};

pub(crate) const RECIPE: Recipe = Recipe {
    name: "torchft-nightly",
    version: "2026.10.26",
    requirements: include_str!("../python/torchft.txt"),
    finish: |_, _| Ok(()),
    finish_texts: &[],
    // Without torch it cannot be imported, only found.
    check: "\
import importlib.util
assert importlib.util.find_spec('torchft')
import opentelemetry.sdk, opentelemetry.exporter.otlp.proto.http",
    first_time: "about 20 seconds and 10 MB",
};

/// The environment with torchft.
#[derive(Debug, Clone)]
pub struct Torchft {
    env: PythonEnv,
}

impl Torchft {
    /// The release, as people name it.
    pub const VERSION: &'static str = RECIPE.version;

    /// torchft from the cache, installed first where it is missing.
    pub fn ensure() -> Result<Self, PythonError> {
        Ok(Self { env: RECIPE.ensure()? })
    }

    /// A command that runs the Python of `torch`, which must be the same release of Python, with torchft beside it.
    pub fn command(&self, torch: &Torch) -> Command {
        let mut command = torch.command();
        // `lib` holds one folder, called by the release of Python.
        let pythons = std::fs::read_dir(self.folder().join("lib")).into_iter().flatten().flatten();
        let packages = pythons.map(|python| python.path().join("site-packages")).find(|folder| folder.is_dir());
        command.envs(packages.map(|folder| ("PYTHONPATH", folder)));
        command
    }
}

impl Deref for Torchft {
    type Target = PythonEnv;

    fn deref(&self) -> &PythonEnv {
        &self.env
    }
}
