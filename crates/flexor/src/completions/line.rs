//! The line that is being typed, as far as it says where names are to be looked for.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{cli, verbs};

/// What stands between this program's own words and those that were typed.
const TYPED: &str = "--";

/// The words of this process with those that were typed in the order in which they are read.
pub fn as_asked() -> Vec<OsString> {
    let mut own: Vec<OsString> = std::env::args_os().collect();
    let typed = own.iter().position(|word| word == TYPED).map_or_else(Vec::new, |at| own.split_off(at + 1));
    own.extend(verbs::behind_the_verb(typed));
    own
}

/// What a line says before the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The verb.
    pub verb: String,
    /// What stands behind it that belongs to no option.
    pub words: Vec<String>,
    /// Which cluster.
    pub state_dir: Option<PathBuf>,
    /// Which namespace, where one was typed.
    pub namespace: Option<String>,
    /// All of them.
    pub all_namespaces: bool,
}

impl Line {
    /// The line of this process, before the word that is being completed.
    pub fn of_this_process() -> Self {
        let typed = as_asked().into_iter().skip_while(|word| word != TYPED).skip(1);
        let mut typed: Vec<String> = typed.map(|word| word.to_string_lossy().into_owned()).collect();
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        typed.truncate(index.unwrap_or_else(|| typed.len().saturating_sub(1)));
        Self::read(&typed)
    }

    fn read(typed: &[String]) -> Self {
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
                Name::Long(name) => arg.get_long() == Some(name),
                Name::Short(letter) => arg.get_short() == Some(letter),
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

enum Name<'a> {
    Long(&'a str),
    Short(char),
}

/// The option that a word is, with a value that is a part of it.
fn option(word: &str) -> Option<(Name<'_>, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        return Some(match long.split_once('=') {
            Some((name, value)) => (Name::Long(name), Some(value)),
            None => (Name::Long(long), None),
        });
    }
    let short = word.strip_prefix('-')?;
    let letter = short.chars().next()?;
    let rest = &short[letter.len_utf8()..];
    Some((Name::Short(letter), (!rest.is_empty()).then(|| rest.strip_prefix('=').unwrap_or(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_their_values_are_no_names() {
        let read = |text: &str| Line::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let line = read("flexor get -n dlrover pods --state-dir=/a -o json one");
        assert_eq!((line.verb.as_str(), line.words), ("get", vec!["pods".to_owned(), "one".to_owned()]));
        assert_eq!((line.namespace.as_deref(), line.state_dir), (Some("dlrover"), Some("/a".into())));
        let line = read("flexor describe -A pods -l a=b");
        assert!(line.all_namespaces && line.words == ["pods"], "{line:?}");
        let line = read("flexor logs -f -nother");
        assert_eq!((line.namespace.as_deref(), line.words.len()), (Some("other"), 0));
        assert_eq!(read("flexor"), Line::default());
        assert_eq!(read("flexor nothing x"), Line::default());
    }
}
