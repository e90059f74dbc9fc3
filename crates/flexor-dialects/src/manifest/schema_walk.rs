//! Holds a document against the schema of its kind: the very schema that the API server has.
//!
//! Only the keywords that structural schemas of ours use are known. Types, required and unknown fields, bounds,
//! patterns and enumerations are judged here; rules between fields are judged by [`super::rules`].

mod type_help;

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use flexor_model::{Quantity, Reason};
use regex::Regex;
use serde_json::{Map, Value as Schema};

use super::{
    node::{Entry, Node, Value},
    path::FieldPath,
};
use crate::{
    Finding,
    finding::{quoted, shortened},
    suggest,
};

/// Everything in `node` that its schema does not allow.
pub(crate) fn walk(schema: &Schema, node: &Node) -> Vec<Finding> {
    let mut walk = Walk { findings: Vec::new() };
    walk.value(schema, node, &FieldPath::default());
    walk.findings
}

struct Walk {
    findings: Vec<Finding>,
}

/// What a bound counts.
struct Counted {
    min: &'static str,
    max: &'static str,
    one: &'static str,
    many: &'static str,
}

const ENTRIES: Counted = Counted { min: "minProperties", max: "maxProperties", one: "entry", many: "entries" };
const ITEMS: Counted = Counted { min: "minItems", max: "maxItems", one: "item", many: "items" };
const CHARACTERS: Counted = Counted { min: "minLength", max: "maxLength", one: "character", many: "characters" };

impl Walk {
    fn value(&mut self, schema: &Schema, node: &Node, path: &FieldPath) {
        match (&node.value, schema["type"].as_str()) {
            (Value::Map(entries), Some("object")) => self.object(schema, node, entries, path),
            (Value::List(items), Some("array")) => self.list(schema, node, items, path),
            (Value::Text(text), Some("string") | None) => self.text(schema, node, text, path),
            (Value::Number(n), Some("integer")) if n.is_i64() || n.is_u64() => self.number(schema, node, n, path),
            (Value::Number(n), Some("number") | None) => self.number(schema, node, n, path),
            (Value::Bool(_), Some("boolean")) => {}
            (_, None) if !is_quantity(schema) => {}
            (_, wanted) => {
                let finding = Finding::new(
                    Reason::WrongType,
                    path.to_string(),
                    format!("must be {}, got {}", type_help::name(wanted), node.value.describe()),
                );
                let help = type_help::instead(&node.value, wanted, path);
                self.findings.push(Finding { help, ..finding }.at(Some(node.at)));
            }
        }
    }

    fn object(&mut self, schema: &Schema, node: &Node, entries: &[Entry], path: &FieldPath) {
        let properties = schema["properties"].as_object();
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        for entry in entries {
            let here = path.key(&entry.key);
            if let Some(keys) = schema.get("propertyNames") {
                let key = Node { at: entry.key_at, value: Value::Text(entry.key.clone()) };
                self.value(keys, &key, &here);
            }
            match (properties.and_then(|known| known.get(&entry.key)), others) {
                // The API server drops a key with nothing behind it.
                (Some(_), _) | (_, Some(_)) if entry.node.value == Value::Null => {}
                (Some(known), _) => self.value(known, &entry.node, &here),
                (None, Some(others)) => self.value(others, &entry.node, &here),
                (None, None) if keeps_unknown(schema) => {}
                (None, None) => self.unknown_field(properties, entry, &here),
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Schema::as_str) {
            if !entries.iter().any(|entry| entry.key == required && entry.node.value != Value::Null) {
                self.missing_field(schema, required, node, entries, path);
            }
        }
        self.count(schema, node, path, entries.len(), &ENTRIES);
    }

    fn missing_field(&mut self, schema: &Schema, required: &str, node: &Node, entries: &[Entry], path: &FieldPath) {
        let known = |key: &str| schema["properties"].get(key).is_some();
        let unknown = entries.iter().map(|entry| entry.key.as_str()).filter(|key| !known(key));
        let slip = suggest::closest(required, unknown);
        // Where unknown fields are refused, the slip itself has been named with what was meant.
        if slip.is_some() && !keeps_unknown(schema) {
            return;
        }
        let about = first_sentence(&schema["properties"][required]).map(|about| format!(" ({about})"));
        let help = match slip {
            Some(slip) => format!("did you mean `{required}:` by {}?", quoted(slip)),
            None => format!("add `{required}:`{}", about.unwrap_or_default()),
        };
        let field = path.key(required).to_string();
        self.findings.push(Finding::new(Reason::MissingField, field, "is missing").help(help).at(Some(node.at)));
    }

    fn unknown_field(&mut self, known: Option<&Map<String, Schema>>, entry: &Entry, path: &FieldPath) {
        let names: Vec<&str> = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
        let help =
            if names.is_empty() { "nothing can be set here".to_owned() } else { suggest::instead(&entry.key, names) };
        let finding = Finding::new(Reason::UnknownField, path.to_string(), "unknown field");
        self.findings.push(finding.help(help).at(Some(entry.key_at)));
    }

    fn list(&mut self, schema: &Schema, node: &Node, items: &[Node], path: &FieldPath) {
        self.count(schema, node, path, items.len(), &ITEMS);
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
            let value = |key: &&str| item.get(key).map(|node| node.to_json().to_string()).unwrap_or_default();
            let identity: Vec<String> = keys.iter().map(value).collect();
            if let Some(first) = seen.insert(identity.clone(), i) {
                let shown = shortened(&identity.join(", "));
                let message = format!("has the same {} {shown} as item {first}", keys.join(", "));
                let finding = Finding::new(Reason::InvalidValue, path.index(i).to_string(), message);
                self.findings.push(finding.at(Some(item.at)));
            }
        }
    }

    fn count(&mut self, schema: &Schema, node: &Node, path: &FieldPath, n: usize, counted: &Counted) {
        let n = n as u64;
        let message = match (schema[counted.min].as_u64(), schema[counted.max].as_u64()) {
            (Some(1), _) if n == 0 => format!("needs at least one {}", counted.one),
            (Some(min), _) if n < min => format!("has {n} {}; needs at least {min}", counted.many),
            (_, Some(max)) if n > max => format!("has {n} {}; at most {max} are possible", counted.many),
            _ => return,
        };
        self.findings.push(Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at)));
    }

    fn text(&mut self, schema: &Schema, node: &Node, text: &str, path: &FieldPath) {
        let invalid = |message: String| Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at));
        if let Some(allowed) = schema["enum"].as_array() {
            let names: Vec<&str> = allowed.iter().filter_map(Schema::as_str).collect();
            if !names.contains(&text) {
                let help = suggest::instead(text, names);
                self.findings.push(invalid(format!("cannot be {}", quoted(text))).help(help));
            }
            return;
        }
        self.count(schema, node, path, text.chars().count(), &CHARACTERS);
        let Some(pattern) = schema["pattern"].as_str() else { return };
        // That there is nothing has been said already.
        let nothing = text.is_empty() && schema["minLength"].is_u64();
        if nothing || matches(pattern, text) {
            return;
        }
        if is_quantity(schema) {
            let message = match text.parse::<Quantity>() {
                Ok(_) => format!("{} is negative; write 0 or more", quoted(text)),
                Err(error) => error.to_string(),
            };
            self.findings.push(invalid(message));
            return;
        }
        let message = match wanted(schema) {
            Some(wanted) => format!("{} does not fit: must be {wanted}", quoted(text)),
            None => format!("{} does not match {pattern}", quoted(text)),
        };
        let better = suggest::better_name(text).filter(|name| matches(pattern, name));
        self.findings.push(Finding { help: better.map(|name| format!("write `{name}`")), ..invalid(message) });
    }

    fn number(&mut self, schema: &Schema, node: &Node, n: &serde_json::Number, path: &FieldPath) {
        let value = n.as_f64().unwrap_or(f64::MAX);
        let widest = (schema["format"] == "int32").then_some(f64::from(i32::MAX));
        let message = match (schema["minimum"].as_f64(), schema["maximum"].as_f64().or(widest)) {
            (Some(min), _) if value < min => format!("is {n}; must be at least {min}"),
            (_, Some(max)) if value > max => format!("is {n}; must be at most {max}"),
            _ => return,
        };
        self.findings.push(Finding::new(Reason::InvalidValue, path.to_string(), message).at(Some(node.at)));
    }
}

fn keeps_unknown(schema: &Schema) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// What a field is about, from its description.
fn first_sentence(schema: &Schema) -> Option<&str> {
    schema["description"].as_str().and_then(|text| text.split('.').next()).filter(|text| !text.is_empty())
}

/// What a field wants, from the sentence of its description that says so.
fn wanted(schema: &Schema) -> Option<&str> {
    let rest = schema["description"].as_str()?.split("Must be ").nth(1)?;
    Some(rest.split(". ").next().unwrap_or(rest).trim_end_matches('.'))
}

/// Quantities are the only values with a pattern and no type.
fn is_quantity(schema: &Schema) -> bool {
    schema["type"].is_null() && schema["pattern"].is_string()
}

/// Whether the text matches. Patterns come from our own schemas, so each is compiled once and kept.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<BTreeMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = compiled
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).expect("patterns stand in our own schemas, which tests compile"));
    regex.is_match(text)
}
