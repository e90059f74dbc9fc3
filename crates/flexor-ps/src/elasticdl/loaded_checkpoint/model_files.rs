//! ElasticDL's own checkpoints: one file per server with a protobuf `Model`.
//!
//! They contain values only: no slots, no step counts, no checksums.

use std::fs;
use std::path::{Path, PathBuf};

use flexor_wire::elasticdl as wire;
use prost::Message;

use super::{LoadError, LoadedCheckpoint, PartSource, io_at};
use crate::checkpoint::regular_file_size;
use crate::elasticdl::options::{Mode, Options};
use crate::elasticdl::parameters::Parameters;
use crate::spec::Optimizer;

pub(super) fn read(files: &[PathBuf], optimizer: Optimizer, seed: u64) -> Result<LoadedCheckpoint, LoadError> {
    let mut loaded = LoadedCheckpoint { sources: Vec::new(), optimizer, seed, version: 0 };
    let options = Options { optimizer, seed, mode: Mode::Async { modulates_rate: false } };
    for file in files {
        let model = model_of(file)?;
        let parameters = Parameters::new(options)?;
        parameters.push_model(&model)?;
        loaded.version = loaded.version.max(model.version);
        let layout = parameters.hosted().layout();
        loaded.sources.push(PartSource { layout, partitions: parameters.into_partitions().into_iter() });
    }
    Ok(loaded)
}

fn model_of(path: &Path) -> Result<wire::Model, LoadError> {
    regular_file_size(path).map_err(io_at(path))?;
    let bytes = fs::read(path).map_err(io_at(path))?;
    let why = |error: prost::DecodeError| LoadError::ModelFile { path: path.to_owned(), why: error.to_string() };
    wire::Model::decode(bytes.as_slice()).map_err(why)
}
