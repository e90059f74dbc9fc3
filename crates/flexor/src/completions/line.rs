//! Parses the typed command line, to find the cluster, the namespace and the kind of names to complete.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{cli, verbs};

/// Separates the arguments of this process from the typed ones.
const SEPARATOR: &str = "--";

/// The arguments of this process, with options before the verb moved behind it.
pub fn with_verb_first() -> Vec<OsString> {
    let mut own: Vec<OsString> = std::env::args_os().collect();
    let typed = own.iter().position(|word| word == SEPARATOR).map_or_else(Vec::new, |at| own.split_off(at + 1));
    own.extend(verbs::behind_the_verb(typed));
    own
}

/// The command line before the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TypedLine {
    pub verb: String,
    /// Positional arguments.
    pub words: Vec<String>,
    pub state_dir: Option<PathBuf>,
    pub namespace: Option<String>,
    pub all_namespaces: bool,
}

impl TypedLine {
    /// The line of this process, before the word that is being completed.
    pub fn of_this_process() -> Self {
        let typed = with_verb_first().into_iter().skip_while(|word| word != SEPARATOR).skip(1);
        let mut typed: Vec<String> = typed.map(|word| word.to_string_lossy().into_owned()).collect();
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        typed.truncate(index.unwrap_or_else(|| typed.len().saturating_sub(1)));
        Self::parse(&typed)
    }

    fn parse(typed: &[String]) -> Self {
        let mut line = Self::default();
        let mut words = typed.iter().skip(1);
        let program = cli::command();
        let Some(verb) = words.next().and_then(|verb| program.find_subcommand(verb)) else { return line };
        verb.get_name().clone_into(&mut line.verb);
        while let Some(word) = words.next() {
            let Some((option, inline)) = option(word) else {
                line.words.push(word.clone());
                continue;
            };
            let is_it = |arg: &&clap::Arg| match option {
                OptionName::Long(name) => arg.get_long() == Some(name),
                OptionName::Short(letter) => arg.get_short() == Some(letter),
            };
            let Some(arg) = verb.get_arguments().find(is_it) else { continue };
            let value = if arg.get_action().takes_values() {
                inline.map(str::to_owned).or_else(|| words.next().cloned())
            } else {
                None
            };
            match arg.get_id().as_str() {
                "state_dir" => line.state_dir = value.map(PathBuf::from),
                "namespace" => line.namespace = value,
                "all_namespaces" => line.all_namespaces = true,
                _ => {}
            }
        }
        line
    }
}

enum OptionName<'a> {
    Long(&'a str),
    Short(char),
}

/// Parses a word as an option, with its value if the word contains it.
fn option(word: &str) -> Option<(OptionName<'_>, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        return Some(match long.split_once('=') {
            Some((name, value)) => (OptionName::Long(name), Some(value)),
            None => (OptionName::Long(long), None),
        });
    }
    let short = word.strip_prefix('-')?;
    let letter = short.chars().next()?;
    let rest = &short[letter.len_utf8()..];
    Some((OptionName::Short(letter), (!rest.is_empty()).then(|| rest.strip_prefix('=').unwrap_or(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_their_values_are_no_words() {
        let read = |text: &str| TypedLine::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let line = read("flexor get -n dlrover pods --state-dir=/a -o json one");
        assert_eq!((line.verb.as_str(), line.words), ("get", vec!["pods".to_owned(), "one".to_owned()]));
        assert_eq!((line.namespace.as_deref(), line.state_dir), (Some("dlrover"), Some("/a".into())));
        let line = read("flexor describe -A pods -l a=b");
        assert!(line.all_namespaces && line.words == ["pods"], "{line:?}");
        let line = read("flexor logs -f -nother");
        assert_eq!((line.namespace.as_deref(), line.words.len()), (Some("other"), 0));
        assert_eq!(read("flexor"), TypedLine::default());
        assert_eq!(read("flexor nothing x"), TypedLine::default());
    }
}
