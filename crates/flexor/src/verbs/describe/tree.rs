//! Text in which names stand before values, and what belongs to a name is indented below it, as kubectl describes things.

use serde_json::{Map, Value};

use crate::output::on_one_line;
use crate::verbs::cells;

/// Words that are written in capitals.
const CAPITALS: [&str; 6] = ["api", "cpu", "id", "ip", "uid", "url"];

/// A description that is being written.
#[derive(Default)]
pub struct Text {
    text: String,
    indent: usize,
}

impl Text {
    /// Names with their values, which stand below each other. A value may have several lines.
    pub fn pairs(&mut self, pairs: &[(&str, String)]) {
        let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 3;
        for (name, value) in pairs {
            let mut name = format!("{name}:");
            for line in if value.is_empty() { vec![""] } else { value.lines().collect() } {
                self.line(&format!("{name:<width$}{}", on_one_line(line)));
                name.clear();
            }
        }
    }

    /// What belongs to a name.
    pub fn below(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.line(&format!("{name}:"));
        self.indent += 2;
        write(self);
        self.indent -= 2;
    }

    /// Rows below a name, their columns below each other. No rows are no text.
    pub fn rows(&mut self, name: &str, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column)).map(|cell| on_one_line(cell));
        let widths: Vec<usize> =
            (0..columns).map(|column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0)).collect();
        let line = |row: &Vec<String>| -> String {
            row.iter().zip(&widths).map(|(cell, width)| format!("{:<1$}", on_one_line(cell), width + 2)).collect()
        };
        self.block(name, &rows.iter().map(|row| line(row) + "\n").collect::<String>());
    }

    /// Lines below a name. No lines are no text.
    pub fn block(&mut self, name: &str, lines: &str) {
        if !lines.is_empty() {
            self.below(name, |text| lines.lines().for_each(|line| text.line(line)));
        }
    }

    /// A value with everything in it. What is null or empty is left out.
    pub fn tree(&mut self, value: &Value) {
        match value {
            Value::Object(map) => self.map(map),
            Value::Array(list) => list.iter().for_each(|item| self.tree(item)),
            Value::Null => {}
            other => self.line(&on_one_line(&cells::text(other))),
        }
    }

    fn map(&mut self, map: &Map<String, Value>) {
        let mut entries: Vec<(String, &Value)> =
            map.iter().filter(|(_, value)| !is_empty(value)).map(|(key, value)| (title(key), value)).collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let scalars = entries.iter().filter(|(_, value)| !(value.is_object() || value.is_array()));
        let width = scalars.map(|(key, _)| key.chars().count()).max().unwrap_or(0) + 3;
        for (key, value) in entries {
            if value.is_object() || value.is_array() {
                self.below(&key, |text| text.tree(value));
            } else {
                let name = format!("{key}:");
                self.line(&format!("{name:<width$}{}", on_one_line(&cells::text(value))));
            }
        }
    }

    /// A line.
    pub fn line(&mut self, line: &str) {
        let indent = self.indent;
        self.text.push_str(format!("{:indent$}{line}", "").trim_end());
        self.text.push('\n');
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Labels or annotations, one in a line.
pub fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let lines: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", cells::text(value))).collect();
    if lines.is_empty() { "<none>".to_owned() } else { lines.join("\n") }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// A name of a field as it is written for people: `lastUpdateTime` is `Last Update Time`.
fn title(key: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut was_small = false;
    for c in key.chars() {
        match words.last_mut() {
            Some(word) if !(c.is_uppercase() && was_small) => word.push(c),
            Some(_) | None => words.push(c.to_string()),
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    let written = words.into_iter().map(|word| {
        let small = word.to_lowercase();
        let mut letters = word.chars();
        match letters.next() {
            _ if CAPITALS.contains(&small.as_str()) => small.to_uppercase(),
            Some(first) => first.to_uppercase().chain(letters).collect(),
            None => String::new(),
        }
    });
    written.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_written_for_people() {
        for (key, written) in [
            ("lastUpdateTime", "Last Update Time"),
            ("apiVersion", "API Version"),
            ("podIP", "Pod IP"),
            ("uid", "UID"),
            ("Worker", "Worker"),
            ("min-instance", "Min-instance"),
        ] {
            assert_eq!(title(key), written);
        }
    }

    #[test]
    fn what_belongs_to_a_name_is_indented_below_it() {
        let mut text = Text::default();
        text.tree(&json!({ "spec": { "b": 1, "longer": "x", "list": [{ "a": 1 }, { "a": 2 }], "none": {} } }));
        assert_eq!(text.finish(), "Spec:\n  B:       1\n  List:\n    A:  1\n    A:  2\n  Longer:  x\n");
    }
}
