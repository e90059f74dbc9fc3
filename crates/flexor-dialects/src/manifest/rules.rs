//! Rules between fields, in the words of the API server: the CEL rules of the kind's own schema, evaluated here.
//!
//! They stand once, in the schema, so a manifest that passes here is not refused by the cluster for a rule, nor the
//! other way round.

use std::collections::BTreeSet;

use flexor_model::Reason;
use kube::core::cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use crate::{Finding, finding::one_line};

/// A message may hold a name from the manifest.
const LONGEST_MESSAGE: usize = 400;

/// The compiled rules of one kind.
pub(crate) struct Rules {
    compiled: CompiledSchema,
    validator: Validator,
}

impl Rules {
    /// Compiles the rules of a schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let compiled = compile_schema(&with_doubled_underscores(schema));
        assert!(!compiled.has_errors(), "rules that do not compile: {:?}", compiled.compilation_errors());
        Self { compiled, validator: Validator::new() }
    }

    /// The rules that an object breaks. Only for objects that fit their schema.
    pub(crate) fn broken(&self, object: &Value) -> Vec<Finding> {
        let Err(errors) = self.validator.validate_compiled(&self.compiled, object, None) else {
            return Vec::new();
        };
        errors
            .into_vec()
            .into_iter()
            .map(|error| {
                let (field, message) = split_field(error.field_path.trim_start_matches('.'), &error.message);
                Finding::new(Reason::RuleBroken, field, one_line(message, LONGEST_MESSAGE))
            })
            .collect()
    }
}

/// The schema with `self.a_b` in its rules written `self.a__b`.
///
/// The API server leaves a single underscore in a field's name as it is; the evaluator here wants it doubled.
fn with_doubled_underscores(schema: &Value) -> Value {
    let mut names = BTreeSet::new();
    collect_underscored(schema, &mut names);
    let mut schema = schema.clone();
    rewrite_rules(&mut schema, &names);
    schema
}

fn collect_underscored(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let properties = fields.get("properties").and_then(Value::as_object).into_iter().flatten();
            names.extend(properties.map(|(name, _)| name).filter(|name| name.contains('_')).cloned());
            fields.values().for_each(|value| collect_underscored(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_underscored(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rewrite_rules(schema: &mut Value, names: &BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for key in ["rule", "messageExpression"] {
                if let Some(Value::String(text)) = fields.get_mut(key) {
                    *text = double_underscores(text, names);
                }
            }
            fields.values_mut().for_each(|value| rewrite_rules(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_rules(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Doubles the underscores of those words behind a dot that are names of fields.
fn double_underscores(rule: &str, names: &BTreeSet<String>) -> String {
    let mut pieces = rule.split('.');
    let mut rewritten = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(piece.len());
        let (word, rest) = piece.split_at(end);
        rewritten.push('.');
        rewritten.push_str(&if names.contains(word) { word.replace('_', "__") } else { word.to_owned() });
        rewritten.push_str(rest);
    }
    rewritten
}

/// A rule about the name stands at the root, where the API server takes no path; its message begins with the field.
fn split_field<'a>(field: &'a str, message: &'a str) -> (&'a str, &'a str) {
    match message.split_once(": ") {
        Some((named, rest)) if field.is_empty() && named.starts_with("metadata.") => (named, rest),
        _ => (field, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_of_fields_are_rewritten() {
        let names = ["ports_num", "ports_num_for_sparse"].map(str::to_owned).into();
        assert_eq!(
            double_underscores("has(self.ports_num_for_sparse) || self.ports_num > size(self.other_one)", &names),
            "has(self.ports__num__for__sparse) || self.ports__num > size(self.other_one)"
        );
    }
}
