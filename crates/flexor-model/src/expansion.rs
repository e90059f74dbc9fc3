//! `$(VAR)` in commands, arguments and values, expanded as Kubernetes does, up to what a program can be given.
//!
//! A value may name variables before it many times, so a short list of variables can stand for any amount of text.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

/// The longest variable or argument that Linux passes to a program, without the zero at its end.
pub const LONGEST_TEXT: usize = (128 << 10) - 1;
/// The most bytes that all variables of a container may have. Linux passes about as many to a program.
pub const LARGEST_ENVIRONMENT: usize = 2 << 20;

/// The text is longer than [`LONGEST_TEXT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expands to more than {LONGEST_TEXT} bytes, the most that a program can be given")]
pub struct TooLong;

/// Replaces `$(NAME)` by the value of NAME. A reference to an unknown name stays as it is, and `$$` is one dollar.
pub fn expand<'a>(text: &str, known: impl Fn(&str) -> Option<&'a str>) -> Result<String, TooLong> {
    let mut expanded = String::new();
    let mut push = |piece: &str| {
        expanded.push_str(piece);
        if expanded.len() > LONGEST_TEXT { Err(TooLong) } else { Ok(()) }
    };
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        push(&rest[..at])?;
        let after = &rest[at + 1..];
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        rest = match (after.strip_prefix('$'), reference) {
            (Some(left), _) => {
                push("$")?;
                left
            }
            (None, Some((name, left))) => {
                match known(name) {
                    Some(value) => push(value)?,
                    None => push(&format!("$({name})"))?,
                }
                left
            }
            (None, None) => {
                push("$")?;
                after
            }
        };
    }
    push(rest)?;
    Ok(expanded)
}

/// Checks that the plain variables, the command and the arguments of a container can be given to a program. Returns the
/// field that cannot, and why.
pub(crate) fn check(container: &Value) -> Result<(), (String, String)> {
    let mut variables: BTreeMap<&str, String> = BTreeMap::new();
    let mut size = 0;
    for (i, variable) in list(&container["env"]).iter().enumerate() {
        let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) else { continue };
        let field = || format!("env[{i}].value");
        let expanded = expand(value, |name| variables.get(name).map(String::as_str));
        let expanded = expanded.map_err(|error| (field(), error.to_string()))?;
        size += expanded.len();
        if size > LARGEST_ENVIRONMENT {
            let problem = format!("the variables have more than {LARGEST_ENVIRONMENT} bytes together");
            return Err((field(), problem));
        }
        variables.insert(name, expanded);
    }
    for part in ["command", "args"] {
        for (i, word) in list(&container[part]).iter().enumerate() {
            let expanded = expand(word.as_str().unwrap_or_default(), |name| variables.get(name).map(String::as_str));
            expanded.map_err(|error| (format!("{part}[{i}]"), error.to_string()))?;
        }
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let known = |name: &str| (name == "A").then_some("1");
        for (text, expanded) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("ä$(A)ö", "ä1ö"),
        ] {
            assert_eq!(expand(text, known).unwrap(), expanded, "{text}");
        }
    }

    /// A kilobyte of a manifest that stands for gigabytes.
    #[test]
    fn variables_that_double_are_refused_before_they_grow() {
        let again = json!({ "name": "E", "value": "$(E)$(E)$(E)$(E)$(E)$(E)$(E)$(E)$(E)$(E)" });
        let mut env = vec![json!({ "name": "E", "value": "0123456789" })];
        env.extend(std::iter::repeat_n(again, 20));
        let (field, problem) = check(&json!({ "env": env })).unwrap_err();
        assert_eq!(field, "env[5].value");
        assert_eq!(problem, "expands to more than 131071 bytes, the most that a program can be given");
    }

    #[test]
    fn arguments_and_all_variables_together_are_bounded_too() {
        let long = "x".repeat(100_000);
        let variable = |i: usize| json!({ "name": format!("V{i}"), "value": long });
        let (field, _) = check(&json!({ "env": [variable(0)], "args": ["a", "$(V0)$(V0)"] })).unwrap_err();
        assert_eq!(field, "args[1]");
        let all: Vec<Value> = (0..30).map(variable).collect();
        let (field, problem) = check(&json!({ "env": all })).unwrap_err();
        assert!(field == "env[20].value" && problem.contains("together"), "{field}: {problem}");
        assert_eq!(check(&json!({ "env": [variable(0)], "args": ["$(V0)"] })), Ok(()));
    }
}
