//! What a YAML parser says, in words that help.

use super::node::{DEEPEST, MOST_VALUES};

/// The message of the parser about a line, as we say it, and what to do about it.
pub(super) fn explain(message: &str, line: &str) -> (String, Option<String>) {
    let advice = |text: &str| Some(text.to_owned());
    if line.contains('\u{a0}') {
        return (message.to_owned(), advice("a no-break space (U+00A0) stands in this line; write a plain one"));
    }
    if line.contains("{{") {
        return (message.to_owned(), advice("this looks like a template; render it first, as with `helm template`"));
    }
    if message.starts_with("budget breached: Depth") || message.contains("recursion limit") {
        return (format!("the document is nested too deeply: more than {DEEPEST} levels"), None);
    }
    if message.contains("unknown anchor") {
        return (message.to_owned(), advice("put it in quotes: `*` begins an alias"));
    }
    if message.starts_with("budget breached") || message.contains("alias") {
        return (format!("the document has more than {MOST_VALUES} values, aliases followed"), advice("split it"));
    }
    if message.starts_with("non-finite float") {
        return ("a number that is not finite".to_owned(), advice("put it in quotes if it is a string"));
    }
    let help = if message.contains("tab") {
        advice("indent with spaces")
    } else if message.contains("mapping values are not allowed") {
        advice("this line or the one above is indented wrongly, or a string with `: ` in it needs quotes")
    } else if message.contains("simple key expected") || message.contains("could not find expected ':'") {
        advice("a key needs a `:` behind it")
    } else if message.contains("unclosed") {
        advice("close it")
    } else if message.contains("indentation") {
        advice("indent it like its neighbours, and close quotes on the same line")
    } else {
        None
    };
    (message.to_owned(), help)
}
