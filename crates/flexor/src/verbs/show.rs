//! Objects as text: tables, JSON, YAML or names.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::args::ObjectFormat;
use super::cells::{self, Style};
use super::fetch::Found;
use super::kinds::ObjectKind;
use super::table::Table;

/// Prints objects of some kinds, at once or one after the other.
pub struct Show {
    format: Option<ObjectFormat>,
    style: Style,
    tables: BTreeMap<String, Table>,
}

impl Show {
    /// In a format; a table without one.
    pub fn new(format: Option<ObjectFormat>, namespaces: bool, kinds: bool) -> Self {
        let style = Style { wide: format == Some(ObjectFormat::Wide), namespaces, kinds };
        Self { format, style, tables: BTreeMap::new() }
    }

    /// Everything that was found. `is_one` says that one object was asked for, by its name.
    pub fn everything(&mut self, found: &[Found], is_one: bool) -> anyhow::Result<String> {
        let objects = || found.iter().flat_map(|found| &found.objects);
        let whole = || match (is_one, objects().next()) {
            (true, Some(object)) => object.clone(),
            _ => json!({ "apiVersion": "v1", "kind": "List", "items": objects().collect::<Vec<_>>() }),
        };
        match self.format {
            Some(ObjectFormat::Json) => Ok(format!("{}\n", serde_json::to_string_pretty(&whole())?)),
            Some(ObjectFormat::Yaml) => yaml(&whole()),
            Some(ObjectFormat::Name) => {
                Ok(found.iter().flat_map(|found| found.objects.iter().map(|one| name(&found.kind, one))).collect())
            }
            Some(ObjectFormat::Wide) | None => {
                let tables: Vec<String> = found
                    .iter()
                    .map(|found| self.rows(&found.kind, &found.objects))
                    .filter(|table| !table.is_empty())
                    .collect();
                Ok(tables.join("\n"))
            }
        }
    }

    /// More objects of a kind: all at once, so that their rows stand below each other.
    pub fn more(&mut self, kind: &ObjectKind, objects: &[Value]) -> anyhow::Result<String> {
        let each = |write: &dyn Fn(&Value) -> anyhow::Result<String>| objects.iter().map(write).collect();
        match self.format {
            Some(ObjectFormat::Json) => each(&|object| Ok(format!("{}\n", serde_json::to_string_pretty(object)?))),
            Some(ObjectFormat::Yaml) => each(&|object| Ok(format!("---\n{}", yaml(object)?))),
            Some(ObjectFormat::Name) => each(&|object| Ok(name(kind, object))),
            Some(ObjectFormat::Wide) | None => Ok(self.rows(kind, objects)),
        }
    }

    /// Makes a column of a kind wide enough for texts that may come.
    pub fn make_room(&mut self, kind: &ObjectKind, heading: &str, texts: &[String]) {
        self.table(kind).make_room(heading, texts);
    }

    fn rows(&mut self, kind: &ObjectKind, objects: &[Value]) -> String {
        let (style, now) = (self.style, Timestamp::now());
        let rows: Vec<Vec<String>> = objects.iter().map(|object| cells::row(kind, object, style, now)).collect();
        self.table(kind).rows(&rows)
    }

    fn table(&mut self, kind: &ObjectKind) -> &mut Table {
        let style = self.style;
        self.tables.entry(kind.full_name()).or_insert_with(|| Table::new(cells::heading(kind, style)))
    }
}

/// An object as YAML.
pub fn yaml(object: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(object).context("the object cannot be written as YAML")?;
    Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
}

fn name(kind: &ObjectKind, object: &Value) -> String {
    format!("{}/{}\n", kind.full_name(), cells::text(&object["metadata"]["name"]))
}
