//! `-l`: label selectors in kubectl's syntax.

use std::str::FromStr;

use serde_json::Value;

/// Requirements on labels. An object must meet all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    In(Vec<String>),
    /// Objects without the label match.
    NotIn(Vec<String>),
    Exists,
    Missing,
}

impl Selector {
    /// Whether the labels of an object match.
    pub fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| {
            let value = labels[requirement.key.as_str()].as_str();
            let is_among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
            match &requirement.rule {
                Rule::In(values) => is_among(values),
                Rule::NotIn(values) => !is_among(values),
                Rule::Exists => value.is_some(),
                Rule::Missing => value.is_none(),
            }
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = outside_parentheses(text);
        parts.into_iter().filter(|part| !part.is_empty()).map(requirement).collect::<Result<_, _>>().map(Selector)
    }
}

/// Splits at commas outside of parentheses.
fn outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let set = |values: &str| -> Option<Vec<String>> {
        let inner = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    let wrong = || format!("`{text}` is not a label selector; write a=b, a!=b, a, !a, a in (b,c) or a notin (b,c)");
    let (key, rule) = if let Some((key, values)) = text.split_once(" notin ") {
        (key, Rule::NotIn(set(values).ok_or_else(wrong)?))
    } else if let Some((key, values)) = text.split_once(" in ") {
        (key, Rule::In(set(values).ok_or_else(wrong)?))
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Rule::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Rule::In(vec![value.trim().to_owned()]))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Rule::Missing)
    } else {
        (text, Rule::Exists)
    };
    let key = key.trim().to_owned();
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if is_key { Ok(Requirement { key, rule }) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_read_as_kubectl_reads_them() {
        let object = json!({ "metadata": { "labels": { "job": "a", "role": "worker" } } });
        for (text, selected) in [
            ("", true),
            ("job=a", true),
            ("job==a,role=worker", true),
            ("job=b", false),
            ("job!=b", true),
            ("none!=b", true),
            ("job", true),
            ("!job", false),
            ("!none", true),
            ("job in (a, b)", true),
            ("role notin (worker,ps), job=a", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().selects(&object), selected, "{text}");
        }
        for text in ["=a", "a b", "a in b", "!"] {
            assert!(text.parse::<Selector>().unwrap_err().contains("is not a label selector"), "{text}");
        }
    }
}
