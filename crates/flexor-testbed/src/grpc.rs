//! gRPC for Python in its own environment, as a third-party program would use it.
//!
//! It compiles a `.proto` file at import, so no generated code is checked in.

use std::ops::Deref;

use crate::python::{PythonEnv, PythonError, Recipe};

pub(crate) const RECIPE: Recipe = Recipe {
    name: "grpcio-tools",
    version: "1.85.1",
    requirements: include_str!("../python/grpc.txt"),
    finish: |_, _| Ok(()),
    finish_texts: &[],
    check: "\
import grpc
protos, services = grpc.protos_and_services('grpc_tools/_proto/google/protobuf/empty.proto')
protos.Empty()",
    first_time: "about 10 seconds and 10 MB",
};

/// The environment with gRPC.
#[derive(Debug, Clone)]
pub struct Grpc {
    env: PythonEnv,
}

impl Grpc {
    /// gRPC from the cache, installed first where it is missing.
    pub fn ensure() -> Result<Self, PythonError> {
        Ok(Self { env: RECIPE.ensure()? })
    }
}

impl Deref for Grpc {
    type Target = PythonEnv;

    fn deref(&self) -> &PythonEnv {
        &self.env
    }
}

/// gRPC for Python, or a skipped test where the machine has no Python to install it with. Any other trouble panics.
#[macro_export]
macro_rules! grpc_or_skip {
    () => {
        match $crate::Grpc::ensure() {
            Ok(grpc) => grpc,
            Err(missing @ $crate::PythonError::PythonMissing { .. }) => $crate::skip!("{missing}"),
            Err(error) => panic!("gRPC could not be installed: {error}"),
        }
    };
}
