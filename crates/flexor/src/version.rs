//! `flexor version`: prints the version.

use serde::Serialize;

use crate::{
    exit::Exit,
    output::{self, Format},
};

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

pub fn run(format: Format) -> anyhow::Result<Exit> {
    let version = Version { version: env!("CARGO_PKG_VERSION") };
    match format {
        Format::Text => output::text(&format!("flexor {}\n", version.version))?,
        Format::Json => output::json(&version)?,
    }
    Ok(Exit::Success)
}
