//! Cuts arguments into options, values and positional arguments, as Python's argparse does.
//!
//! Users' scripts were tried with argparse, so its rules hold to the letter: `--k v` and `--k=v`, abbreviated names,
//! values that look like negative numbers or contain a space, `--`. What a value means is not decided here, and
//! nothing here is specific to training.

use flexor_model::Reason;

use super::{
    abbreviation::{self, Meaning},
    command::CommandName,
};
use crate::{
    Finding,
    elasticdl::options::{Arity, OptionSpec},
    finding::shortened,
};

/// The arguments of one command, cut.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Scan {
    /// Each option as often as it was given, with its value.
    pub(super) options: Vec<(&'static OptionSpec, Value)>,
    /// What stands for the command's own positional arguments.
    pub(super) positionals: Vec<String>,
    /// What the command does not know.
    pub(super) extras: Vec<Extra>,
    /// Whether help was asked for.
    pub(super) help: bool,
    /// What cannot be understood.
    pub(super) errors: Vec<Finding>,
}

/// What was given for an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A text.
    Text(String),
    /// Nothing; only a switch can stand alone.
    Bare,
}

/// An argument that the command does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extra {
    /// It looks like an option: its name without the value.
    Option(String),
    /// It belongs to no option.
    Argument(String),
}

/// What one argument is, before it is known what it belongs to.
enum Token<'a> {
    Option { spec: &'static OptionSpec, value: Option<&'a str> },
    Help,
    Ambiguous { written: &'a str, candidates: Vec<&'static str> },
    Unknown { written: &'a str },
    Argument(&'a str),
    Marker,
}

impl<'a> Token<'a> {
    fn argument(&self) -> Option<&'a str> {
        if let Self::Argument(text) = self { Some(text) } else { None }
    }
}

/// Cuts the arguments that stand behind the command's name.
pub(super) fn scan(command: CommandName, args: &[String]) -> Scan {
    let tokens = tokens(command, args);
    let mut scan = Scan::default();
    let mut tokens = tokens.into_iter().peekable();
    // argparse does not know which arguments an unknown option takes: those that follow are extras, too.
    let mut behind_unknown = false;
    while let Some(token) = tokens.next() {
        let mut unknown = false;
        match token {
            Token::Option { spec, value: Some(value) } => {
                scan.options.push((spec, Value::Text(value.to_owned())));
            }
            Token::Option { spec, value: None } => {
                let following = tokens.peek().and_then(Token::argument);
                if following.is_some() {
                    tokens.next();
                }
                match (following, spec.arity) {
                    (Some(value), Arity::One | Arity::Switch) => {
                        scan.options.push((spec, Value::Text(value.to_owned())));
                    }
                    (None, Arity::Switch) => scan.options.push((spec, Value::Bare)),
                    (None, Arity::One) => scan.errors.push(no_value(spec)),
                }
            }
            Token::Help => scan.help = true,
            Token::Ambiguous { written, candidates } => {
                scan.errors.push(ambiguous(written, &candidates));
                unknown = true;
            }
            Token::Unknown { written } => {
                scan.extras.push(Extra::Option(written.to_owned()));
                unknown = true;
            }
            Token::Argument(text) => {
                if scan.positionals.len() < command.positionals().len() {
                    scan.positionals.push(text.to_owned());
                } else if behind_unknown {
                    unknown = true;
                } else {
                    scan.extras.push(Extra::Argument(text.to_owned()));
                }
            }
            Token::Marker => {}
        }
        behind_unknown = unknown;
    }
    scan
}

fn tokens(command: CommandName, args: &[String]) -> Vec<Token<'_>> {
    let mut only_arguments = false;
    args.iter()
        .map(|arg| {
            if only_arguments {
                Token::Argument(arg)
            } else if arg == "--" {
                only_arguments = true;
                Token::Marker
            } else {
                token(command, arg)
            }
        })
        .collect()
}

/// The order of these questions is argparse's, and each answer depends on it.
fn token(command: CommandName, arg: &str) -> Token<'_> {
    if !arg.starts_with('-') || arg.len() == 1 {
        return Token::Argument(arg);
    }
    if arg == "-h" {
        return Token::Help;
    }
    let exact = |name: &str| command.options().find(|spec| spec.name == name);
    if let Some(spec) = exact(arg) {
        return Token::Option { spec, value: None };
    }
    let (name, value) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (arg, None),
    };
    if let Some(spec) = exact(name) {
        return Token::Option { spec, value };
    }
    match abbreviation::meaning(command, name) {
        Meaning::Option(spec) => return Token::Option { spec, value },
        Meaning::Help => return Token::Help,
        Meaning::Ambiguous(candidates) => {
            return Token::Ambiguous { written: name, candidates };
        }
        Meaning::Nothing => {}
    }
    if is_negative_number(arg) || arg.contains(' ') { Token::Argument(arg) } else { Token::Unknown { written: name } }
}

/// `-4`, `-4.5` or `-.5`.
fn is_negative_number(arg: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let Some(number) = arg.strip_prefix('-') else {
        return false;
    };
    match number.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction) && !fraction.is_empty(),
        None => digits(number) && !number.is_empty(),
    }
}

fn no_value(spec: &OptionSpec) -> Finding {
    Finding::new(Reason::MissingField, spec.name, "a value is required")
        .help(format!("write {}={}; a value that begins with `-` must follow `=`", spec.name, spec.expects))
}

fn ambiguous(written: &str, candidates: &[&str]) -> Finding {
    let message = format!("ambiguous option: could be {}", candidates.join(", "));
    Finding::new(Reason::InvalidValue, shortened(written), message).help("write the full name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(command: CommandName, args: &[&str]) -> Scan {
        scan(command, &args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    fn train(args: &[&str]) -> Vec<(&'static str, Value)> {
        let scan = cut(CommandName::Train, args);
        assert_eq!((scan.errors, scan.extras), (vec![], vec![]), "{args:?}");
        scan.options.into_iter().map(|(spec, value)| (spec.name, value)).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_value_stands_behind_a_space_or_an_equals_sign() {
        assert_eq!(train(&["--output", "x"]), [("--output", text("x"))]);
        assert_eq!(train(&["--output=x=y"]), [("--output", text("x=y"))]);
        assert_eq!(train(&["--output="]), [("--output", text(""))]);
        assert_eq!(train(&["--output", ""]), [("--output", text(""))]);
    }

    #[test]
    fn a_value_may_begin_with_a_dash_where_argparse_allows_it() {
        assert_eq!(train(&["--num_workers", "-3"]), [("--num_workers", text("-3"))]);
        assert_eq!(train(&["--output", "-.5"]), [("--output", text("-.5"))]);
        assert_eq!(train(&["--output", "-"]), [("--output", text("-"))]);
        assert_eq!(train(&["--job_command", "--a b"]), [("--job_command", text("--a b"))]);
        assert_eq!(train(&["--output=--x"]), [("--output", text("--x"))]);
        for value in ["-x", "--x", "-5x", "--"] {
            let scan = cut(CommandName::Train, &["--output", value]);
            assert_eq!(scan.errors[0].field, "--output", "{value}");
            assert_eq!(scan.errors[0].reason, Reason::MissingField, "{value}");
        }
    }

    #[test]
    fn a_switch_takes_a_value_only_if_one_follows() {
        assert_eq!(train(&["--use_async"]), [("--use_async", Value::Bare)]);
        assert_eq!(train(&["--use_async", "no"]), [("--use_async", text("no"))]);
        assert_eq!(train(&["--use_async", "--output=x"]), [("--use_async", Value::Bare), ("--output", text("x"))]);
    }

    #[test]
    fn unknown_options_swallow_what_follows_but_no_known_option() {
        let scan = cut(CommandName::Train, &["--color", "red", "blue", "--output", "x", "stray", "-z"]);
        assert_eq!(
            scan.extras,
            [Extra::Option("--color".into()), Extra::Argument("stray".into()), Extra::Option("-z".into())]
        );
        assert_eq!(scan.options.len(), 1);
    }

    #[test]
    fn positional_arguments_may_stand_anywhere_and_behind_the_marker() {
        for args in [&[".", "--image=i"][..], &["--image", "i", "."], &["--image=i", "--", "."]] {
            let scan = cut(CommandName::ZooBuild, args);
            assert_eq!((scan.positionals, scan.options.len()), (vec![".".to_owned()], 1), "{args:?}");
        }
        let scan = cut(CommandName::ZooPush, &["--", "--", "x"]);
        assert_eq!((scan.positionals, scan.extras), (vec!["--".to_owned()], vec![Extra::Argument("x".into())]));
    }

    #[test]
    fn help_is_seen_in_every_form() {
        for arg in ["-h", "--help", "--he"] {
            assert!(cut(CommandName::Train, &["--output=x", arg]).help, "{arg}");
        }
    }
}
