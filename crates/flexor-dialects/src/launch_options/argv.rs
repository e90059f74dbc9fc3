//! Cuts arguments into the launcher's options and the program with its own, as torchrun's argparse does.
//!
//! `--k v`, `--k=v`, `-r3`, `-mr 3`; everything from the first word that is no option on is the program's. Unlike
//! torchrun, and like dlrover-run, names must be written in full: what an abbreviation means changes with every release
//! that adds an option. What a value means is not decided here.

use flexor_model::Reason;

use super::{Kind, OptionSpec, table};
use crate::{
    Finding,
    finding::{quoted, shortened},
    suggest::closest,
};

/// A command line, cut.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// Each option as often as it was given; none for the value of a flag.
    pub(super) options: Vec<(&'static OptionSpec, Option<String>)>,
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// Whether help was asked for.
    pub(super) help: bool,
    /// What cannot be understood.
    pub(super) errors: Vec<Finding>,
}

/// Cuts the arguments that stand behind the launcher's name.
pub(super) fn cut(args: &[String]) -> Cut {
    let mut cut = Cut::default();
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if word == "-h" || word == "--help" {
            cut.help = true;
            break;
        }
        if word == "--" {
            cut.program = rest.to_vec();
            break;
        }
        if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            rest = if word.starts_with("--") { cut.long(word, rest) } else { cut.short(letters, rest) };
        } else {
            cut.program.push(word.clone());
            cut.program.extend_from_slice(rest);
            break;
        }
    }
    cut
}

impl Cut {
    /// Takes `--name`, `--name value` or `--name=value`; returns what is left.
    fn long<'a>(&mut self, word: &str, rest: &'a [String]) -> &'a [String] {
        let (name, attached) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        match table::all().find(|spec| spec.is_called(name)) {
            Some(spec) => self.option(spec, attached, rest),
            None => {
                self.errors.push(unknown(name));
                rest
            }
        }
    }

    /// Takes `-m`, `-r value`, `-rvalue`, `-r=value`, and flags written together; returns what is left.
    fn short<'a>(&mut self, letters: &str, rest: &'a [String]) -> &'a [String] {
        let mut left = letters;
        while let Some(letter) = left.chars().next() {
            left = &left[letter.len_utf8()..];
            let Some(spec) = table::all().find(|spec| spec.short == Some(letter)) else {
                self.errors.push(unknown(&format!("-{letters}")));
                return rest;
            };
            if spec.kind == Kind::Flag && !left.starts_with('=') {
                self.options.push((spec, None));
            } else {
                let attached = Some(left.strip_prefix('=').unwrap_or(left)).filter(|_| !left.is_empty());
                return self.option(spec, attached, rest);
            }
        }
        rest
    }

    fn option<'a>(&mut self, spec: &'static OptionSpec, attached: Option<&str>, rest: &'a [String]) -> &'a [String] {
        if spec.kind == Kind::Flag {
            match attached {
                Some(value) => self.errors.push(flag_with_value(spec, value)),
                None => self.options.push((spec, None)),
            }
            return rest;
        }
        match (attached, rest.split_first()) {
            (Some(value), _) => {
                self.options.push((spec, Some(value.to_owned())));
                rest
            }
            (None, Some((value, behind))) if may_be_a_value(value) => {
                self.options.push((spec, Some(value.clone())));
                behind
            }
            (None, _) => {
                let help = format!("write {}={}", spec.name, spec.metavar().unwrap_or_default());
                self.errors.push(Finding::new(Reason::MissingField, spec.name, "its value is missing").help(help));
                rest
            }
        }
    }
}

/// Whether a word may be the value of the option before it: it does not look like an option itself.
fn may_be_a_value(word: &str) -> bool {
    match word.strip_prefix('-') {
        None | Some("") => true,
        Some(behind) => {
            let (whole, fraction) = behind.split_once('.').unwrap_or((behind, "0"));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let negative_number = digits(whole) && digits(fraction) && !fraction.is_empty();
            negative_number || word.contains(' ')
        }
    }
}

fn flag_with_value(spec: &OptionSpec, value: &str) -> Finding {
    let message = format!("takes no value, but {} is given", quoted(value));
    let help = match spec.env_name() {
        Some(name) => format!("write {} alone, or set {name} to 1 or 0", spec.name),
        None => format!("write {} alone", spec.name),
    };
    Finding::new(Reason::InvalidValue, spec.name, message).help(help)
}

fn unknown(written: &str) -> Finding {
    let finding = |message| Finding::new(Reason::UnknownOption, shortened(written), message);
    let whole = |spec: &OptionSpec| spec.spellings().iter().any(|spelling| spelling.starts_with(written));
    let meant: Vec<&str> = table::all().filter(|spec| whole(spec)).map(|spec| spec.name).collect();
    if written.len() > 2 && !meant.is_empty() {
        return finding("is not the whole name of an option").help(format!("write {}", meant.join(" or ")));
    }
    let help = match closest(written, table::all().map(|spec| spec.name)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "options of the program stand behind its name; `flexor launch --help` lists the launcher's".to_owned(),
    };
    finding("is no option of `flexor launch`").help(help)
}
