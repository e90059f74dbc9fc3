//! Accepts options before the verb, as kubectl does: `flexor -n dlrover get pods`.

use std::ffi::OsString;

use clap::Subcommand;

use super::args::Verb;

/// Options with a value that may precede a verb.
const WITH_VALUE: [&str; 3] = ["-n", "--namespace", "--state-dir"];

/// Moves the options before a verb behind it. Leaves any other command line unchanged.
pub fn behind_the_verb(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let mut at = 1;
    while let Some(width) = line.get(at).and_then(|word| word.to_str()).and_then(width) {
        at += width;
    }
    if line.get(at).and_then(|word| word.to_str()).is_some_and(is_verb) {
        // Rotates the verb in front of the options.
        line[1..=at].rotate_right(1);
    }
    line
}

pub fn is_verb(word: &str) -> bool {
    Verb::augment_subcommands(clap::Command::new("flexor")).find_subcommand(word).is_some()
}

/// Number of words of an option that may precede a verb.
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
    fn only_options_of_a_verb_are_moved() {
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
