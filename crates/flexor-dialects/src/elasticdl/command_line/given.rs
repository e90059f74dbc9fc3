//! The options that were given to one command, read one by one into typed values.
//!
//! Everything that is wrong or worth a remark is collected, so that a user sees all of it at once.

use std::collections::BTreeMap;

use flexor_model::Reason;

use super::{argv::Value, command::CommandName};
use crate::{
    Finding,
    elasticdl::{
        options::{Fate, OptionSpec},
        values::OptionValue,
    },
    finding::quoted,
};

/// What was given.
pub(in crate::elasticdl) struct Given {
    command: CommandName,
    texts: BTreeMap<&'static str, String>,
    /// What there is to say about it so far.
    pub(in crate::elasticdl) findings: Vec<Finding>,
}

impl Given {
    /// The options as they were cut from the command line. The last of several values counts.
    pub(super) fn new(command: CommandName, options: Vec<(&'static OptionSpec, Value)>) -> Self {
        let mut given = Self { command, texts: BTreeMap::new(), findings: Vec::new() };
        for (spec, value) in options {
            let text = match value {
                Value::Text(text) => text,
                Value::Bare => opposite(spec.default).to_owned(),
            };
            let before = given.texts.insert(spec.name, text.clone());
            if before.is_some_and(|before| before != text) {
                let message = format!("given more than once; the last value {} is used", quoted(&text));
                given.findings.push(Finding::new(Reason::ValueReplaced, spec.name, message));
            }
        }
        given
    }

    /// Whether the option was given with a value that is not empty.
    pub(in crate::elasticdl) fn has(&self, name: &str) -> bool {
        self.texts.get(name).is_some_and(|text| !text.is_empty())
    }

    /// The value of an option; none where it is wrong or missing, with a finding that says so.
    pub(in crate::elasticdl) fn read<T: OptionValue>(&mut self, spec: &'static OptionSpec) -> Option<T> {
        if !spec.commands.contains(&self.command) {
            return Some(default(spec));
        }
        let required = spec.is_required(self.command, self.has("--job_command"));
        match self.texts.get(spec.name).filter(|text| !(required && text.is_empty())) {
            Some(text) => {
                let text = text.clone();
                self.parse(spec, &text)
            }
            None if required => {
                let message = format!("required by `{}`", self.command);
                let help = format!("add {}={}", spec.name, spec.expects);
                self.findings.push(Finding::new(Reason::MissingField, spec.name, message).help(help));
                None
            }
            None => Some(default(spec)),
        }
    }

    fn parse<T: OptionValue>(&mut self, spec: &'static OptionSpec, text: &str) -> Option<T> {
        let mut remarks = Vec::new();
        match T::read(text, &mut remarks) {
            Ok(value) => {
                if let Fate::Unused(why) = spec.fate
                    && T::read(spec.default, &mut Vec::new()).as_ref() != Ok(&value)
                {
                    self.findings.push(Finding::new(Reason::FieldUnused, spec.name, "has no effect").help(why));
                }
                let said = remarks.into_iter().map(|remark| Finding::new(remark.reason, spec.name, remark.message));
                self.findings.extend(said);
                Some(value)
            }
            Err(refusal) => {
                self.findings.push(Finding::new(refusal.reason, spec.name, refusal.message).help(refusal.help));
                None
            }
        }
    }
}

fn default<T: OptionValue>(spec: &OptionSpec) -> T {
    match T::read(spec.default, &mut Vec::new()) {
        Ok(value) => value,
        Err(refusal) => unreachable!("the default of {} can be read: {}", spec.name, refusal.message),
    }
}

/// What a switch means when it stands alone.
fn opposite(default: &str) -> &'static str {
    if default == "True" { "False" } else { "True" }
}
