//! `flexor crd`: prints custom resource definitions.

use std::collections::BTreeMap;

use clap::builder::{PossibleValue, PossibleValuesParser};
use serde_json::json;

use crate::{
    cli::{CrdArgs, CrdFormat},
    exit::Exit,
    output,
};

pub fn run(args: &CrdArgs) -> anyhow::Result<Exit> {
    let is_selected = |name: &str| args.dialect.as_ref().is_none_or(|dialect| dialect == name);
    let crds: Vec<_> =
        flexor_dialects::crds().into_iter().filter(|(dialect, _)| is_selected(dialect)).map(|(_, crd)| crd).collect();
    match args.output {
        CrdFormat::Yaml => {
            let documents: String = crds.iter().map(|crd| format!("---\n{}", flexor_dialects::crd_yaml(crd))).collect();
            output::text(&documents)?;
        }
        CrdFormat::Json => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": crds}))?,
    }
    Ok(Exit::Success)
}

/// The values of `--dialect`: dialects with custom resources, each with the names of its kinds as help.
pub fn dialects() -> PossibleValuesParser {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in flexor_dialects::kinds() {
        kinds.entry(kind.dialect).or_default().push(kind.kind);
    }
    kinds.into_iter().map(|(dialect, kinds)| PossibleValue::new(dialect).help(kinds.join(", "))).into()
}
