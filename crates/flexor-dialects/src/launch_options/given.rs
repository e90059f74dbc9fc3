//! What was given: on the command line, in the environment, or not at all.
//!
//! The command line wins over `PET_*`, which wins over the default. Reading a value of the wrong kind leaves a finding
//! that names the option or the variable it came from.

use std::collections::BTreeMap;

use flexor_model::Reason;

use super::{Fate, Kind, OptionSpec, python_number, table};
use crate::{
    Finding,
    finding::quoted,
    suggest::{closest, instead},
};

/// What was given, and what there is to say about it so far.
pub(super) struct Given<'a> {
    words: BTreeMap<&'static str, String>,
    env: &'a BTreeMap<String, String>,
    pub(super) findings: Vec<Finding>,
}

/// The value of an option with the place it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    /// The option, or the variable that gave it.
    pub(super) field: String,
    pub(super) source: Source,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    CommandLine,
    Environment,
    Default,
}

/// What is wrong with a value, and what to write instead.
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) help: String,
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl<'a> Given<'a> {
    /// The options as they were cut. The last of several values counts.
    pub(super) fn new(options: Vec<(&'static OptionSpec, Option<String>)>, env: &'a BTreeMap<String, String>) -> Self {
        let mut given = Self { words: BTreeMap::new(), env, findings: Vec::new() };
        for (spec, value) in options {
            let text = value.unwrap_or_else(|| "1".to_owned());
            let before = given.words.insert(spec.name, text.clone());
            if before.is_some_and(|before| before != text) {
                let message = format!("given more than once; the last value {} is used", quoted(&text));
                given.findings.push(Finding::new(Reason::ValueReplaced, spec.name, message));
            }
        }
        for spec in table::all() {
            given.check(spec);
        }
        given.name_unknown_variables();
        given
    }

    /// The value of an option, from wherever it comes.
    pub(super) fn value(&self, spec: &OptionSpec) -> Value {
        if let Some(text) = self.words.get(spec.name) {
            return Value { text: text.clone(), field: spec.name.to_owned(), source: Source::CommandLine };
        }
        let variable = spec.env_name().and_then(|name| Some((self.env.get(&name)?.clone(), name)));
        match variable {
            Some((text, field)) => Value { text, field, source: Source::Environment },
            None => Value { text: spec.default.to_owned(), field: spec.name.to_owned(), source: Source::Default },
        }
    }

    /// Whether it was given at all.
    pub(super) fn has(&self, spec: &OptionSpec) -> bool {
        self.value(spec).source != Source::Default
    }

    /// Whether somebody wrote it on the command line. Variables are set for every job alike, by those who set it up.
    pub(super) fn is_written(&self, spec: &OptionSpec) -> bool {
        self.value(spec).source == Source::CommandLine
    }

    /// A variable that is no option's.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// Whether a flag is set.
    pub(super) fn flag(&self, spec: &OptionSpec) -> bool {
        python_number::integer(&self.value(spec).text).is_some_and(|number| number != 0)
    }

    /// The value of an option, read; none where it is wrong, with a finding that says so.
    pub(super) fn read<T>(&mut self, spec: &OptionSpec, read: impl FnOnce(&str) -> Result<T, Wrong>) -> Option<T> {
        let Value { text, field, .. } = self.value(spec);
        self.judge(&field, read(&text))
    }

    /// The same for an option that may be left out or empty.
    pub(super) fn read_some<T>(
        &mut self,
        spec: &OptionSpec,
        read: impl FnOnce(&str) -> Result<T, Wrong>,
    ) -> Option<Option<T>> {
        if self.value(spec).text.is_empty() { Some(None) } else { self.read(spec, read).map(Some) }
    }

    /// The value of what was read about a field, or a finding.
    pub(super) fn judge<T>(&mut self, field: &str, read: Result<T, Wrong>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(wrong) => {
                // What is of the wrong kind altogether has been complained about already.
                if !self.findings.iter().any(|finding| finding.field == field && finding.is_error()) {
                    self.findings.push(Finding::new(Reason::InvalidValue, field, wrong.message).help(wrong.help));
                }
                None
            }
        }
    }

    /// Says that an option cannot be as it is because of others.
    pub(super) fn refuse(&mut self, spec: &OptionSpec, message: impl Into<String>, help: impl Into<String>) {
        let Value { field, .. } = self.value(spec);
        self.findings.push(Finding::new(Reason::RuleBroken, field, message).help(help));
    }

    /// What can be said about a value without knowing what it is for: whether it is of its kind, and does anything.
    fn check(&mut self, spec: &'static OptionSpec) {
        let Value { text, field, source } = self.value(spec);
        if source == Source::Default {
            return;
        }
        if let Err(wrong) = of_kind(spec.kind, &text) {
            self.findings.push(Finding::new(Reason::InvalidValue, field, wrong.message).help(wrong.help));
            return;
        }
        if is_default(spec, &text) {
            return;
        }
        self.findings.extend(match spec.fate {
            Fate::Meant => None,
            Fate::NoEffect(why) => Some(Finding::new(Reason::FieldUnused, field, "has no effect").help(why)),
            Fate::Refused { why, instead } => Some(Finding::new(Reason::UnsupportedOption, field, why).help(instead)),
        });
    }

    /// A misspelt variable would otherwise be without effect in silence.
    fn name_unknown_variables(&mut self) {
        let known: Vec<String> = table::all().filter_map(OptionSpec::env_name).collect();
        for name in self.env.keys().filter(|name| name.starts_with("PET_") && !known.contains(name)) {
            let finding = Finding::new(Reason::FieldUnused, name.as_str(), "no option is read from this variable");
            self.findings.push(match closest(name, known.iter().map(String::as_str)) {
                Some(meant) => finding.help(format!("did you mean `{meant}`?")),
                None => finding,
            });
        }
    }
}

fn of_kind(kind: Kind, text: &str) -> Result<(), Wrong> {
    let no = |what: &str| format!("{} is no {what}", quoted(text));
    match kind {
        Kind::Text(_) => Ok(()),
        Kind::Flag if python_number::integer(text).is_none() => Err(Wrong::new(no("number"), "write 1 or 0")),
        Kind::Integer(_) if python_number::integer(text).is_none() => {
            Err(Wrong::new(no("whole number"), "write a number such as 3"))
        }
        Kind::Number(_) if python_number::float(text).is_none() => {
            Err(Wrong::new(no("number"), "write a number such as 0.5"))
        }
        Kind::Choice(words) if !words.contains(&text) => {
            Err(Wrong::new(format!("{} is not possible", quoted(text)), instead(text, words.iter().copied())))
        }
        Kind::Flag | Kind::Integer(_) | Kind::Number(_) | Kind::Choice(_) => Ok(()),
    }
}

/// Whether a value says what holds anyway.
fn is_default(spec: &OptionSpec, text: &str) -> bool {
    match spec.kind {
        Kind::Flag | Kind::Integer(_) => python_number::integer(text) == python_number::integer(spec.default),
        Kind::Number(_) => python_number::float(text) == python_number::float(spec.default),
        Kind::Text(_) | Kind::Choice(_) => text == spec.default,
    }
}
