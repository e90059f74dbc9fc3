//! YAML as a tree in which every key and value knows its line.
//!
//! This is the form in which a manifest is held against its schema. Scalars are read the way kubectl reads them, so
//! `n` and `yes` without quotes are booleans. Duplicate keys, unbounded nesting and oversized input are refused here.

use flexor_model::Reason;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

use super::{
    path::{FieldPath, Segment},
    yaml_trouble,
};
use crate::{
    Finding, Position,
    finding::{quoted, shortened},
};

/// Nesting that no manifest reaches: a definition that embeds a Job with a pod in it has about 40 levels.
pub(super) const DEEPEST: usize = 64;
/// Reading takes up to 30 KB of stack for each level in a build without optimisation.
const STACK: usize = 16 << 20;
/// Values in one document, aliases followed.
pub(super) const MOST_VALUES: usize = 1_000_000;

/// One value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Value,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: Position,
    pub(crate) node: Node,
}

/// Reads one document, which begins in line `first_line` of its file. Nothing, if it is empty.
pub(crate) fn read(text: &str, first_line: u32, duplicates: Duplicates) -> Result<Option<Node>, Finding> {
    let policy = match duplicates {
        Duplicates::Refused => DuplicateKeyPolicy::Error,
        Duplicates::LastWins => DuplicateKeyPolicy::LastWins,
    };
    let mut node = on_large_stack(|| parse(text, policy)).map_err(|error| unreadable(&error, text))?;
    if let Some(node) = &mut node {
        node.move_down(first_line - 1);
    }
    Ok(node)
}

/// What becomes of a key that stands twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Refused,
    /// As kubectl has it.
    LastWins,
}

/// The parser recurses, and nobody knows how small the caller's stack is.
fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .expect("a thread can be started")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn parse(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Option<Node>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_nodes: MOST_VALUES,
            max_events: 3 * MOST_VALUES,
            // The number of values is what matters, not how few anchors they come from.
            enforce_alias_anchor_ratio: false,
        },
    };
    let documents = serde_saphyr::from_multiple_with_options::<Spanned<Value>>(text, options)?;
    Ok(documents.into_iter().next().map(Node::from))
}

/// Says in our words what the parser found; lines count from the document's first.
fn unreadable(error: &serde_saphyr::Error, text: &str) -> Finding {
    let position = error.location().map(position);
    let whole = error.to_string();
    let message = whole.split(" at line ").next().unwrap_or(&whole);
    if let Some(rest) = message.strip_prefix("duplicate mapping key: ") {
        let key = rest.split(", set ").next().unwrap_or(rest);
        let field = position.and_then(|at| path_of_key(text, at)).unwrap_or_else(|| shortened(key));
        return Finding::new(Reason::DuplicateKey, field, "duplicate key")
            .help("keep one of the two; kubectl silently drops the other")
            .at(position);
    }
    let line = position.and_then(|at| text.lines().nth(at.line as usize - 1)).unwrap_or_default();
    let (message, help) = yaml_trouble::explain(message, line);
    Finding { help, ..Finding::new(Reason::InvalidYaml, "", message) }.at(position)
}

/// The way to the key that stands at a place, in a document where keys may stand twice.
fn path_of_key(text: &str, at: Position) -> Option<String> {
    fn search(node: &Node, at: Position, path: &FieldPath) -> Option<String> {
        match &node.value {
            Value::Map(entries) => entries.iter().find_map(|entry| {
                let here = path.key(&entry.key);
                if entry.key_at == at { Some(here.to_string()) } else { search(&entry.node, at, &here) }
            }),
            Value::List(items) => items.iter().enumerate().find_map(|(i, item)| search(item, at, &path.index(i))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => None,
        }
    }
    let document = on_large_stack(|| parse(text, DuplicateKeyPolicy::LastWins)).ok()??;
    search(&document, at, &FieldPath::default())
}

fn position(location: Location) -> Position {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: small(location.line()), column: small(location.column()) }
}

impl Node {
    /// Moves every position down by so many lines.
    fn move_down(&mut self, lines: u32) {
        self.at.line += lines;
        match &mut self.value {
            Value::Map(entries) => {
                for entry in entries {
                    entry.key_at.line += lines;
                    entry.node.move_down(lines);
                }
            }
            Value::List(items) => items.iter_mut().for_each(|item| item.move_down(lines)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }

    /// The value behind a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => None,
        }
    }

    /// The text behind a key, if it is one.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The number behind a path, if it is one.
    pub(crate) fn number(&self, path: &FieldPath) -> Option<&Number> {
        let mut node = self;
        for segment in path.segments() {
            match segment {
                Segment::Key(key) => node = node.get(key)?,
                Segment::Index(_) => return None,
            }
        }
        match &node.value {
            Value::Number(number) => Some(number),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Where a field stands, or else the nearest thing around it that is there.
    pub(crate) fn locate(&self, path: &FieldPath) -> Position {
        let mut node = self;
        let mut at = self.at;
        for segment in path.segments() {
            match (segment, &node.value) {
                (Segment::Key(key), Value::Map(entries)) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == *key) else {
                        break;
                    };
                    (node, at) = (&entry.node, entry.key_at);
                }
                (Segment::Index(index), Value::List(items)) => {
                    let Some(item) = items.get(*index) else { break };
                    (node, at) = (item, item.at);
                }
                (Segment::Key(_) | Segment::Index(_), _) => break,
            }
        }
        at
    }

    /// The same as JSON. Keys with nothing behind them are left out, as the API server does.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => (*b).into(),
            Value::Number(n) => n.clone().into(),
            Value::Text(text) => text.clone().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .filter(|entry| entry.node.value != Value::Null)
                .map(|entry| (entry.key.clone(), entry.node.to_json()))
                .collect(),
        }
    }
}

impl Value {
    /// What it is called in a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".to_owned(),
            Value::Bool(b) => format!("the boolean {b}"),
            Value::Number(n) => format!("the number {n}"),
            Value::Text(text) => format!("the string {}", quoted(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Node { at: position(spanned.referenced), value: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(n.into()))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        /// Up to here every whole number is exact.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        // kubectl sends 2.0 and 2e1 as whole numbers.
        if n.fract() == 0.0 && n.abs() <= EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number that an i64 holds")]
            return Ok(Value::Number((n as i64).into()));
        }
        // Infinities have been refused by the parser; what is left fits.
        Ok(Number::from_f64(n).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(item.into());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = pairs.next_entry::<Spanned<String>, Spanned<Value>>()? {
            entries.push(Entry { key_at: position(key.referenced), key: key.value, node: value.into() });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        read(text, 1, Duplicates::Refused).unwrap().unwrap()
    }

    fn refusal(text: &str) -> Finding {
        read(text, 1, Duplicates::Refused).unwrap_err()
    }

    #[test]
    fn every_value_knows_its_line_in_the_file() {
        let node = read("b:\n  - c: x\n", 5, Duplicates::Refused).unwrap().unwrap();
        assert_eq!(node.locate(&"b[0].c".parse().unwrap()), Position { line: 6, column: 5 });
        assert_eq!(read("# only a remark\n", 1, Duplicates::Refused).unwrap(), None);
    }

    #[test]
    fn what_is_missing_is_located_at_what_is_around_it() {
        let node = one("a: 1\nspec:\n  x: 2\n");
        assert_eq!(node.locate(&"spec.replicaSpecs.worker".parse().unwrap()).line, 2);
    }

    #[test]
    fn scalars_are_read_as_kubectl_reads_them() {
        let node = one("[n, yes, 'n', 0x10, 0777, 1.5, 2.0, 1e1, ~, text]");
        assert_eq!(node.to_json(), serde_json::json!([false, true, "n", 16, 511, 1.5, 2, 10, null, "text"]));
    }

    #[test]
    fn a_duplicate_key_is_refused_where_it_stands_again() {
        let text = "s:\n  a: 1\n  b: 2\n  a: 3\n";
        let finding = refusal(text);
        assert_eq!((finding.reason, finding.field.as_str()), (Reason::DuplicateKey, "s.a"));
        assert_eq!(finding.at.unwrap().line, 4);
        let node = read(text, 1, Duplicates::LastWins).unwrap().unwrap();
        assert_eq!(node.to_json(), serde_json::json!({"s": {"b": 2, "a": 3}}));
    }

    #[test]
    fn input_without_bound_is_refused() {
        let deep = |n: usize| format!("{}1{}", "{a: ".repeat(n), "}".repeat(n));
        assert!(read(&deep(DEEPEST - 1), 1, Duplicates::Refused).is_ok());
        assert!(refusal(&deep(DEEPEST + 1)).message.contains("nested"));
        assert!(refusal(&"[".repeat(100_000)).is_error());
        let bombs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                     d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n\
                     f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]";
        assert!(refusal(bombs).is_error());
    }
}
