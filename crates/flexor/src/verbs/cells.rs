//! The cells of tables: headings of a kind, and the row of an object.

use flexor_local::api::REPLACED_ANNOTATION;
use jiff::Timestamp;
use serde_json::Value;

use super::kinds::{Column, Columns, ObjectKind};
use super::{age, pod_state};

/// Options of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableStyle {
    /// Show more columns.
    pub wide: bool,
    /// Show the namespace in the first column.
    pub namespaces: bool,
    /// Show the kind before the name.
    pub kinds: bool,
}

pub fn heading(kind: &ObjectKind, style: TableStyle) -> Vec<String> {
    let own: Vec<&str> = match &kind.columns {
        Columns::Pod if style.wide => vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "REPLACED"],
        Columns::Pod => vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        Columns::Event => vec!["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
        Columns::ConfigMap => vec!["NAME", "DATA", "AGE"],
        Columns::Secret => vec!["NAME", "TYPE", "DATA", "AGE"],
        Columns::Defined(columns) => {
            std::iter::once("NAME").chain(shown(columns, style).map(|column| column.heading.as_str())).collect()
        }
    };
    let namespace = (style.namespaces && kind.namespaced).then_some("NAMESPACE");
    namespace.into_iter().chain(own).map(str::to_owned).collect()
}

pub fn row(kind: &ObjectKind, object: &Value, style: TableStyle, now: Timestamp) -> Vec<String> {
    let metadata = &object["metadata"];
    let age = || age::since(&metadata["creationTimestamp"], now);
    let prefix = if style.kinds { format!("{}/", kind.full_name()) } else { String::new() };
    let name = format!("{prefix}{}", text(&metadata["name"]));
    let own = match &kind.columns {
        Columns::Pod => {
            let state = pod_state::of(object);
            let mut cells = vec![name, state.ready, state.status, state.restarts.to_string(), age()];
            if style.wide {
                let replaced = metadata["annotations"][REPLACED_ANNOTATION].as_str().unwrap_or("0").to_owned();
                cells.extend([text(&object["status"]["podIP"]), text(&object["spec"]["nodeName"]), replaced]);
            }
            cells
        }
        Columns::Event => vec![
            age::since(&object["lastTimestamp"], now),
            text(&object["type"]),
            text(&object["reason"]),
            about(object),
            text(&object["message"]),
        ],
        Columns::ConfigMap => vec![name, entries(object, &["data", "binaryData"]), age()],
        Columns::Secret => vec![name, text(&object["type"]), entries(object, &["data"]), age()],
        Columns::Defined(columns) => {
            let cell = |column: &Column| {
                let value = at(object, &column.path);
                if column.is_date { age::since(value, now) } else { text(value) }
            };
            std::iter::once(name).chain(shown(columns, style).map(cell)).collect()
        }
    };
    let namespace = (style.namespaces && kind.namespaced).then(|| text(&metadata["namespace"]));
    namespace.into_iter().chain(own).collect()
}

/// The printer columns that a table shows.
fn shown(columns: &[Column], style: TableStyle) -> impl Iterator<Item = &Column> {
    columns.iter().filter(move |column| style.wide || !column.is_wide)
}

/// Number of entries of some mappings together.
fn entries(object: &Value, mappings: &[&str]) -> String {
    let count = |mapping: &&str| object[*mapping].as_object().map_or(0, serde_json::Map::len);
    mappings.iter().map(count).sum::<usize>().to_string()
}

/// The object of an event, as KIND/NAME.
pub fn about(event: &Value) -> String {
    let object = &event["involvedObject"];
    with_kind(&object["kind"], &object["name"])
}

/// An object as KIND/NAME.
pub fn with_kind(kind: &Value, name: &Value) -> String {
    // Events of a deleted job have no kind.
    format!("{}/{}", kind.as_str().unwrap_or("job").to_lowercase(), text(name))
}

/// The value at a path such as `.status.phase`.
pub fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|name| !name.is_empty()).fold(object, |value, name| &value[name])
}

/// A value as text. A missing value is empty.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
