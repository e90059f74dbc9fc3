//! `$(VAR)` in commands, arguments and values, expanded as Kubernetes does.

/// Replaces `$(NAME)` by the value of NAME. A reference to an unknown name stays as it is, and `$$` is one dollar.
pub fn expand(text: &str, known: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let reference = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        rest = match (after.strip_prefix('$'), reference) {
            (Some(left), _) => {
                expanded.push('$');
                left
            }
            (None, Some((name, left))) => {
                expanded.push_str(&known(name).unwrap_or_else(|| format!("$({name})")));
                left
            }
            (None, None) => {
                expanded.push('$');
                after
            }
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let known = |name: &str| (name == "A").then(|| "1".to_owned());
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
            assert_eq!(expand(text, known), expanded, "{text}");
        }
    }
}
