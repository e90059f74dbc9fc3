//! Prints objects as tables, JSON, YAML or names.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::args::ObjectFormat;
use super::cells::{self, TableStyle};
use super::fetch::KindObjects;
use super::kinds::ObjectKind;
use super::table::Table;

/// Formats objects, all at once or as they change.
pub struct ObjectPrinter {
    format: Option<ObjectFormat>,
    style: TableStyle,
    /// Tables by kind, with the widths of their columns.
    tables: BTreeMap<String, Table>,
}

impl ObjectPrinter {
    /// Without a format it prints tables.
    pub fn new(format: Option<ObjectFormat>, namespaces: bool, kinds: bool) -> Self {
        let style = TableStyle { wide: format == Some(ObjectFormat::Wide), namespaces, kinds };
        Self { format, style, tables: BTreeMap::new() }
    }

    /// Formats all objects. With `is_one`, JSON and YAML are the object itself instead of a List.
    pub fn everything(&mut self, found: &[KindObjects], is_one: bool) -> anyhow::Result<String> {
        let objects = || found.iter().flat_map(|found| &found.objects);
        let document = || match (is_one, objects().next()) {
            (true, Some(object)) => object.clone(),
            _ => json!({ "apiVersion": "v1", "kind": "List", "items": objects().collect::<Vec<_>>() }),
        };
        match self.format {
            Some(ObjectFormat::Json) => Ok(format!("{}\n", serde_json::to_string_pretty(&document())?)),
            Some(ObjectFormat::Yaml) => yaml(&document()),
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

    /// Formats further objects of a kind.
    pub fn more(&mut self, kind: &ObjectKind, objects: &[Value]) -> anyhow::Result<String> {
        let each = |write: &dyn Fn(&Value) -> anyhow::Result<String>| objects.iter().map(write).collect();
        match self.format {
            Some(ObjectFormat::Json) => each(&|object| Ok(format!("{}\n", serde_json::to_string_pretty(object)?))),
            Some(ObjectFormat::Yaml) => each(&|object| Ok(format!("---\n{}", yaml(object)?))),
            Some(ObjectFormat::Name) => each(&|object| Ok(name(kind, object))),
            Some(ObjectFormat::Wide) | None => Ok(self.rows(kind, objects)),
        }
    }

    /// Widens a column of a kind for values that may follow.
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
