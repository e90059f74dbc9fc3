//! `flexor crd`.

use serde_json::json;

use crate::{
    cli::{CrdFormat, Dialect},
    exit::Exit,
    output,
};

pub fn run(dialect: Option<Dialect>, format: CrdFormat) -> anyhow::Result<Exit> {
    let wanted = |name: &str| dialect.is_none_or(|dialect| dialect.name() == name);
    let crds: Vec<_> =
        flexor_dialects::crds().into_iter().filter(|(name, _)| wanted(name)).map(|(_, crd)| crd).collect();
    match format {
        CrdFormat::Yaml => {
            let documents: String = crds.iter().map(|crd| format!("---\n{}", flexor_dialects::crd_yaml(crd))).collect();
            output::text(&documents)?;
        }
        CrdFormat::Json => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": crds}))?,
    }
    Ok(Exit::Ok)
}
