//! Flags as Go's programs take them: `-jobname mnist1`, `-jobname=mnist1`, and the same with two dashes.
//!
//! Such command lines are rewritten for clap, whose long options have two dashes. A flag that takes a value takes the
//! next word whatever it looks like, as in Go.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The commands that have Go's flags. They may also be called by symbolic links of these names.
const CLIENTS: [&str; 2] = ["paddlecloud", "paddlectl"];

/// Rewrites the command line of `paddlecloud` or `paddlectl` for `tree`. Leaves any other unchanged.
pub fn spelled_out(line: Vec<OsString>, tree: impl FnOnce() -> clap::Command) -> Vec<OsString> {
    let called = line.first().and_then(|program| Path::new(program).file_name()).and_then(OsStr::to_str);
    let (client, words) = match (called, line.get(1).and_then(|word| word.to_str())) {
        (Some(called), _) if CLIENTS.contains(&called) => (called, &line[1..]),
        (_, Some(word)) if CLIENTS.contains(&word) => (word, &line[2..]),
        _ => return line,
    };
    let tree = tree();
    let Some(client) = tree.find_subcommand(client) else { return line };
    let verb = words.iter().filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
    let command = verb.and_then(|verb| client.find_subcommand(verb)).unwrap_or(client);
    let mut spelled = vec![OsString::from("flexor"), client.get_name().into()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(flag) = word.to_str().and_then(flag) else {
            spelled.push(word.clone());
            if word == "--" {
                break;
            }
            continue;
        };
        let mut option = OsString::from(if flag.name.chars().count() > 1 { "--" } else { "-" });
        option.push(flag.name);
        let value = match flag.value {
            Some(value) => Some(OsString::from(value)),
            None if takes_next_word(command, flag.name) => words.next().cloned(),
            None => None,
        };
        if let Some(value) = value {
            option.push("=");
            option.push(value);
        }
        spelled.push(option);
    }
    spelled.extend(words.cloned());
    spelled
}

struct Flag<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

/// The flag in a word, if there is one. A word of dashes only is none.
fn flag(word: &str) -> Option<Flag<'_>> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
    (!name.is_empty() && !name.starts_with('-')).then_some(Flag { name, value })
}

/// Whether a flag of the command has a value in the next word. Go's switches have theirs behind a `=`.
fn takes_next_word(command: &clap::Command, name: &str) -> bool {
    command.get_arguments().any(|argument| {
        let is_long = argument.get_long() == Some(name);
        let is_short = argument.get_short().is_some_and(|short| name.chars().eq([short]));
        (is_long || is_short) && argument.get_action().takes_values() && !argument.is_require_equals_set()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &[&str]) -> String {
        let line = line.iter().map(OsString::from).collect();
        let words = spelled_out(line, crate::cli::command);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn one_dash_becomes_two_and_values_stay_with_their_flags() {
        assert_eq!(
            spelled(&["flexor", "paddlecloud", "submit", "-jobname", "mnist1", "-cpu=8", "--gpu", "0", "./demo"]),
            "flexor | paddlecloud | submit | --jobname=mnist1 | --cpu=8 | --gpu=0 | ./demo"
        );
        assert_eq!(
            spelled(&["flexor", "paddlectl", "submit", "-entry", "-x train", "-faulttolerant", "-dry-run", "p"]),
            "flexor | paddlectl | submit | --entry=-x train | --faulttolerant | --dry-run | p"
        );
        assert_eq!(
            spelled(&["flexor", "paddlecloud", "logs", "-n", "5", "-w=pod", "mnist1"]),
            "flexor | paddlecloud | logs | -n=5 | -w=pod | mnist1"
        );
        assert_eq!(
            spelled(&["flexor", "paddlecloud", "submit", "-faulttolerant=false", "--", "-odd"]),
            "flexor | paddlecloud | submit | --faulttolerant=false | -- | -odd"
        );
    }

    #[test]
    fn the_clients_may_be_called_by_their_own_names() {
        assert_eq!(spelled(&["/usr/bin/paddlecloud", "kill", "mnist1"]), "flexor | paddlecloud | kill | mnist1");
        assert_eq!(spelled(&["./paddlectl", "-help"]), "flexor | paddlectl | --help");
        assert_eq!(spelled(&["paddlecloud"]), "flexor | paddlecloud");
    }

    #[test]
    fn other_command_lines_are_left_alone() {
        assert_eq!(spelled(&["flexor", "get", "-n", "a", "pods"]), "flexor | get | -n | a | pods");
        assert_eq!(spelled(&["flexor"]), "flexor");
    }

    #[test]
    fn an_unknown_flag_is_left_for_clap_to_refuse() {
        assert_eq!(
            spelled(&["flexor", "paddlecloud", "submit", "-jobnam", "mnist1"]),
            "flexor | paddlecloud | submit | --jobnam | mnist1"
        );
    }
}
