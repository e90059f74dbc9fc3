//! What is known about one option: the row of the table from which the command line is read, printed back and
//! explained.
//!
//! The rows themselves stand beside the typed fields they fill, in [`super`]; what a text must look like is
//! the business of [`OptionValue`](crate::elasticdl::values::OptionValue).

use crate::elasticdl::command_line::CommandName;

/// One option of the `elasticdl` command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name with the dashes, as users write it.
    pub name: &'static str,
    /// The commands that have it.
    pub commands: &'static [CommandName],
    /// Whether it must be given.
    pub presence: Presence,
    /// Whether a value must follow.
    pub arity: Arity,
    /// What its value looks like.
    pub expects: &'static str,
    /// The value that holds when it is not given.
    pub default: &'static str,
    /// The releases of ElasticDL that have it.
    pub generations: &'static [Generation],
    /// What it means.
    pub help: &'static str,
    /// What Flexor does with it.
    pub fate: Fate,
}

/// A release whose command line is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 0.2.0rc2: the release of the tutorial, whose defaults hold.
    Rc2,
    /// The last state of the repository.
    Head,
    /// The client 1.0.0.
    V1,
}

/// Whether an option must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It may be left out.
    Optional,
    /// Every command that has it needs it.
    Required,
    /// Only these commands need it.
    RequiredIn(&'static [CommandName]),
    /// It is needed unless `--job_command` replaces ElasticDL's own training loop.
    UnlessJobCommand,
}

/// How many values follow an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// One or none; none means the opposite of the default.
    Switch,
}

/// What Flexor does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It shapes the neutral job.
    Shapes,
    /// It is kept in the typed options for the command that submits the job and for the processes of the job.
    Kept,
    /// It is accepted and nothing reads it; the text says why, or what to write instead.
    Unused(&'static str),
}

/// The releases that have an option all along.
pub(super) const ALWAYS: &[Generation] = &[Generation::Rc2, Generation::Head, Generation::V1];
/// The releases that have an option removed after the tutorial's.
pub(super) const RC2: &[Generation] = &[Generation::Rc2];
/// The releases that have an option added after the tutorial's.
pub(super) const SINCE_HEAD: &[Generation] = &[Generation::Head, Generation::V1];
/// The release that has an option only the last client knows.
pub(super) const SINCE_V1: &[Generation] = &[Generation::V1];

impl OptionSpec {
    /// Whether this command needs it; `job_command` tells whether the user brings a training loop of their own.
    pub fn is_required(&self, command: CommandName, job_command: bool) -> bool {
        match self.presence {
            Presence::Optional => false,
            Presence::Required => true,
            Presence::RequiredIn(commands) => commands.contains(&command),
            Presence::UnlessJobCommand => !job_command,
        }
    }
}

impl Generation {
    /// Every release, the one whose defaults hold first.
    pub const ALL: &'static [Self] = ALWAYS;

    /// What the release is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rc2 => "0.2.0rc2",
            Self::Head => "develop",
            Self::V1 => "1.0.0",
        }
    }
}
