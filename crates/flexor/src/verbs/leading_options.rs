//! kubectl takes its namespace before the verb as well as after it, and its users write `kubectl -n dlrover get pods`.

use std::ffi::OsString;

use clap::Subcommand;

use super::args::Verb;

/// Options that may stand before a verb, with a value each.
const WITH_VALUE: [&str; 3] = ["-n", "--namespace", "--state-dir"];

/// A command line with the options that stand before a verb moved behind it; any other as it is.
pub fn behind_the_verb(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let mut at = 1;
    while let Some(width) = line.get(at).and_then(|word| word.to_str()).and_then(width) {
        at += width;
    }
    if line.get(at).and_then(|word| word.to_str()).is_some_and(is_verb) {
        // From the first option to the verb: the verb comes first.
        line[1..=at].rotate_right(1);
    }
    line
}

/// Whether a word is a verb.
pub fn is_verb(word: &str) -> bool {
    Verb::augment_subcommands(clap::Command::new("flexor")).find_subcommand(word).is_some()
}

/// How many words an option takes that may stand before a verb.
fn width(word: &str) -> Option<usize> {
    let has_own_value = WITH_VALUE.iter().any(|option| {
        let rest = word.strip_prefix(option);
        rest.is_some_and(|rest| if option.starts_with("--") { rest.starts_with('=') } else { !rest.is_empty() })
    });
    match word {
        "-A" | "--all-namespaces" => Some(1),
        _ if has_own_value => Some(1),
        _ if WITH_VALUE.contains(&word) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_belongs_to_a_verb_is_moved() {
        for (written, read) in [
            ("flexor -n dlrover get pods", "flexor get -n dlrover pods"),
            ("flexor --namespace=a --state-dir b apply -f c", "flexor apply --namespace=a --state-dir b -f c"),
            ("flexor -na -A get pods", "flexor get -na -A pods"),
            ("flexor get -n a pods", "flexor get -n a pods"),
            ("flexor -n a validate f", "flexor -n a validate f"),
            ("flexor -n", "flexor -n"),
            ("flexor -x get", "flexor -x get"),
            ("flexor", "flexor"),
        ] {
            let line = behind_the_verb(written.split(' ').map(OsString::from));
            assert_eq!(line, read.split(' ').map(OsString::from).collect::<Vec<_>>(), "{written}");
        }
    }
}
