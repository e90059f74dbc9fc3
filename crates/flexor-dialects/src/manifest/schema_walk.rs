//! Holds a document against the schema of its kind: the very schema that the API server has.
//!
//! Only the keywords that structural schemas of ours use are known. Types, required and unknown fields, bounds,
//! patterns and enumerations are judged here; rules between fields are judged by [`super::rules`].

use std::{collections::BTreeMap, sync::LazyLock, sync::Mutex};

use flexor_model::{Quantity, Reason};
use regex::Regex;
use serde_json::Value as Schema;

use super::{
    node::{Entry, Node, Value},
    path::FieldPath,
};
use crate::{Finding, suggest};

/// Everything in `node` that its schema does not allow.
pub(crate) fn walk(schema: &Schema, node: &Node) -> Vec<Finding> {
    let mut walk = Walk { findings: Vec::new() };
    walk.value(schema, node, &FieldPath::default());
    walk.findings
}

struct Walk {
    findings: Vec<Finding>,
}

impl Walk {
    fn value(&mut self, schema: &Schema, node: &Node, path: &FieldPath) {
        let kind = schema["type"].as_str();
        let fits = match (&node.value, kind) {
            (Value::Map(entries), Some("object")) => {
                self.object(schema, node, entries, path);
                true
            }
            (Value::List(items), Some("array")) => {
                self.list(schema, node, items, path);
                true
            }
            (Value::Text(text), Some("string")) => {
                self.text(schema, node, text, path);
                true
            }
            (Value::Number(n), Some("integer")) if n.is_i64() || n.is_u64() => {
                self.number(schema, node, n, path);
                true
            }
            (Value::Number(n), Some("number")) => {
                self.number(schema, node, n, path);
                true
            }
            (Value::Bool(_), Some("boolean")) => true,
            (Value::Null, _) => schema["nullable"] == true,
            (Value::Text(text), None) => {
                self.text(schema, node, text, path);
                true
            }
            (Value::Number(n), None) => {
                self.number(schema, node, n, path);
                true
            }
            (_, None) => schema["x-kubernetes-preserve-unknown-fields"] == true && !is_quantity(schema),
            (_, Some(_)) => false,
        };
        if !fits {
            self.wrong_type(schema, node, path);
        }
    }

    fn wrong_type(&mut self, schema: &Schema, node: &Node, path: &FieldPath) {
        let wanted = match schema["type"].as_str() {
            Some("object") => "a mapping",
            Some("array") => "a list",
            Some("string") => "a text",
            Some("integer") => "a whole number",
            Some("number") => "a number",
            Some("boolean") => "true or false",
            _ => "a quantity",
        };
        let finding = Finding::new(
            Reason::WrongType,
            path.to_string(),
            format!("must be {wanted}, not {}", node.value.describe()),
        );
        let help = match (&node.value, schema["type"].as_str()) {
            (Value::Text(text), Some("integer")) if text.parse::<i64>().is_ok() => {
                Some(format!("write {text} without quotes"))
            }
            (Value::Text(text), Some("boolean")) if matches!(text.to_ascii_lowercase().as_str(), "true" | "false") => {
                Some(format!("write {} without quotes", text.to_ascii_lowercase()))
            }
            (Value::Bool(_), Some("string")) => {
                Some("put it in quotes: without them, y, n, yes, no, on, off, true and false are booleans".to_owned())
            }
            (Value::Number(n), Some("string")) => Some(format!("write \"{n}\" in quotes")),
            (Value::Map(_), Some("array")) => Some("begin each item with `- `".to_owned()),
            _ => None,
        };
        self.findings.push(Finding { help, ..finding }.at(Some(node.at)));
    }

    fn object(&mut self, schema: &Schema, node: &Node, entries: &[Entry], path: &FieldPath) {
        let properties = schema["properties"].as_object();
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true
            || schema["additionalProperties"] == true
            || schema["x-kubernetes-embedded-resource"] == true;
        for entry in entries {
            let here = path.key(&entry.key);
            match (properties.and_then(|known| known.get(&entry.key)), others) {
                // The API server drops a key with nothing behind it.
                (Some(_), _) | (_, Some(_)) if entry.node.value == Value::Null => {}
                (Some(known), _) => self.value(known, &entry.node, &here),
                (None, Some(others)) => self.value(others, &entry.node, &here),
                (None, None) if open => {}
                (None, None) => self.unknown_field(properties, entry, &here),
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str) {
            let there = entries.iter().any(|entry| entry.key == required && entry.node.value != Value::Null);
            if !there {
                let what = first_sentence(&schema["properties"][required]).map(|what| format!(" ({what})"));
                self.findings.push(
                    Finding::new(Reason::MissingField, path.key(required).to_string(), "is missing")
                        .help(format!("add `{required}:`{}", what.unwrap_or_default()))
                        .at(Some(node.at)),
                );
            }
        }
        self.count(schema, node, path, entries.len(), ("minProperties", "maxProperties"), "entries");
    }

    fn unknown_field(&mut self, known: Option<&serde_json::Map<String, Schema>>, entry: &Entry, path: &FieldPath) {
        let names = || known.into_iter().flat_map(|known| known.keys().map(String::as_str));
        let help = match suggest::closest(&entry.key, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if names().next().is_none() => "nothing can be set here".to_owned(),
            None => format!("known here are {}", names().collect::<Vec<_>>().join(", ")),
        };
        self.findings.push(
            Finding::new(Reason::UnknownField, path.to_string(), "is not known").help(help).at(Some(entry.key_at)),
        );
    }

    fn list(&mut self, schema: &Schema, node: &Node, items: &[Node], path: &FieldPath) {
        self.count(schema, node, path, items.len(), ("minItems", "maxItems"), "items");
        for (i, item) in items.iter().enumerate() {
            self.value(&schema["items"], item, &path.index(i));
        }
        if schema["x-kubernetes-list-type"] == "map" {
            self.distinct(schema, items, path);
        }
    }

    /// Items of a list that is keyed by a field must differ in it.
    fn distinct(&mut self, schema: &Schema, items: &[Node], path: &FieldPath) {
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Schema::as_str).collect();
        let mut seen = BTreeMap::new();
        for (i, item) in items.iter().enumerate() {
            let identity: Vec<String> = keys
                .iter()
                .map(|key| item.get(key).map(|node| node.to_json().to_string()).unwrap_or_default())
                .collect();
            if let Some(first) = seen.insert(identity.clone(), i) {
                let message = format!("has the same {} {} as item {first}", keys.join(", "), identity.join(", "));
                self.findings
                    .push(Finding::new(Reason::InvalidValue, path.index(i).to_string(), message).at(Some(item.at)));
            }
        }
    }

    fn count(&mut self, schema: &Schema, node: &Node, path: &FieldPath, n: usize, bounds: (&str, &str), what: &str) {
        let (min, max) = (schema[bounds.0].as_u64(), schema[bounds.1].as_u64());
        let n = n as u64;
        let message = match (min, max) {
            (Some(min), _) if n < min => format!("has {n} {what}; at least {min} needed"),
            (_, Some(max)) if n > max => format!("has {n} {what}; at most {max} are possible"),
            _ => return,
        };
        self.findings.push(Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at)));
    }

    fn text(&mut self, schema: &Schema, node: &Node, text: &str, path: &FieldPath) {
        let invalid = |message: String| Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at));
        if let Some(allowed) = schema["enum"].as_array() {
            let names: Vec<&str> = allowed.iter().filter_map(Schema::as_str).collect();
            if !names.contains(&text) {
                let help = match suggest::closest(text, names.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("possible are {}", names.join(", ")),
                };
                self.findings.push(invalid(format!("cannot be `{text}`")).help(help));
            }
            return;
        }
        self.count(schema, node, path, text.chars().count(), ("minLength", "maxLength"), "characters");
        let Some(pattern) = schema["pattern"].as_str() else {
            return;
        };
        if !matches(pattern, text) {
            let message = if is_quantity(schema) {
                match text.parse::<Quantity>() {
                    Ok(_) => Some(format!("`{text}` is negative; write 0 or more")),
                    Err(error) => Some(error.to_string()),
                }
            } else {
                schema["description"].as_str().and_then(|d| d.split("Must be ").nth(1)).map(|rest| {
                    format!(
                        "`{text}` does not fit: must be {}",
                        rest.split(". ").next().unwrap_or(rest).trim_end_matches('.')
                    )
                })
            };
            self.findings.push(invalid(message.unwrap_or_else(|| format!("`{text}` does not match {pattern}"))));
        }
    }

    fn number(&mut self, schema: &Schema, node: &Node, n: &serde_json::Number, path: &FieldPath) {
        let value = n.as_f64().unwrap_or(f64::MAX);
        let message = match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
            (Some(min), _) if value < min => format!("is {n}; must be at least {min}"),
            (_, Some(max)) if value > max => format!("is {n}; must be at most {max}"),
            _ => return,
        };
        self.findings.push(Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at)));
    }
}

/// What a field is about, from its description.
fn first_sentence(schema: &Schema) -> Option<&str> {
    schema["description"].as_str().and_then(|text| text.split('.').next()).filter(|text| !text.is_empty())
}

/// Quantities are the only values with a pattern and no type.
fn is_quantity(schema: &Schema) -> bool {
    schema["type"].is_null() && schema["pattern"].is_string()
}

/// Whether the text matches. Patterns come from our own schemas, so each is compiled once and kept.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<BTreeMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let regex = compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok());
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}
