//! What to write instead of a value of the wrong type.

use super::super::{node::Value, path::FieldPath};
use crate::finding::shortened;

/// What a type is called.
pub(super) fn name(wanted: Option<&str>) -> &'static str {
    match wanted {
        Some("object") => "a map",
        Some("array") => "a list",
        Some("string") => "a string",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        _ => "a quantity",
    }
}

/// What to write, where that can be guessed.
pub(super) fn instead(value: &Value, wanted: Option<&str>, path: &FieldPath) -> Option<String> {
    match (value, wanted) {
        (Value::Text(text), Some("integer")) if text.parse::<i64>().is_ok() => {
            Some(format!("write {text} without quotes"))
        }
        (Value::Text(text), Some("boolean")) if matches!(text.to_ascii_lowercase().as_str(), "true" | "false") => {
            Some(format!("write {} without quotes", text.to_ascii_lowercase()))
        }
        (Value::Text(text), Some("array")) => {
            let words: Vec<String> = text.split_whitespace().take(8).map(|word| format!("{word:?}")).collect();
            Some(format!("write [{}]", shortened(&words.join(", "))))
        }
        (Value::Text(text), Some("object")) => instead_of_text(text, &path.to_string()),
        (Value::Bool(_), Some("string")) => {
            Some("put it in quotes: without them, y, n, yes, no, on, off, true and false are booleans".to_owned())
        }
        (Value::Number(n), Some("string")) => Some(format!("write \"{n}\" in quotes")),
        (Value::List(_), Some("string")) => Some("write it as one string".to_owned()),
        (Value::Map(_), Some("string")) => Some("put it in quotes: `: ` makes it a map".to_owned()),
        (Value::Map(_), Some("array")) => Some("begin each item with `- `".to_owned()),
        (Value::Number(_) | Value::Bool(_), Some("object")) => {
            Some("check the indentation: its fields belong one level deeper".to_owned())
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_), _) => None,
    }
}

/// Variables and pods are maps, though people write `NAME=VALUE` and plain names.
fn instead_of_text(text: &str, path: &str) -> Option<String> {
    if path.contains(".env[") {
        let (name, value) = text.split_once('=').unwrap_or((text, "…"));
        return Some(format!("write {{name: {}, value: {}}}", shortened(name), shortened(value)));
    }
    if let Some(name) = path.strip_prefix("spec.envs.") {
        return Some(format!("write {{name: {name}, value: {}}}", shortened(text)));
    }
    path.contains("Pods[").then(|| format!("write {{name: {}}}", shortened(text)))
}
