//! The image of Flexor itself: the program, a place for temporary files, and nothing else.
//!
//! Operator, masters, parameter servers, workers and sidecars run it. The Dockerfile at the root makes the same image;
//! keep both equal.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Image, ImageConfig, ImageError, RootFiles};

/// User and group in the container, as in the deployments of `deploy/`.
pub const USER: &str = "65532:65532";
/// Where the program is. The folder is in `PATH`, because the pods of jobs call `flexor`.
pub const PROGRAM: &str = "/usr/local/bin/flexor";
const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin";

/// The image around a build of `flexor`. `revision` names the commit that it was built from.
pub fn image(program: &Path, version: &str, revision: Option<&str>) -> Result<Image, ImageError> {
    let mut files = RootFiles::new();
    files.program(program, PROGRAM)?;
    files.directory("/tmp", 0o1777)?;
    let config = ImageConfig {
        user: USER.to_owned(),
        entrypoint: vec![PROGRAM.to_owned()],
        env: vec![PATH.to_owned()],
        working_dir: "/".to_owned(),
        labels: labels(version, revision),
        ..ImageConfig::default()
    };
    Ok(Image { files, config })
}

fn labels(version: &str, revision: Option<&str>) -> BTreeMap<String, String> {
    let known = [
        ("title", Some("flexor")),
        ("description", Some("Elastic, fault-tolerant deep-learning training in one Rust binary")),
        ("licenses", Some("Apache-2.0")),
        ("version", Some(version)),
        ("revision", revision),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.to_owned())).collect()
}
