//! A dialect with custom resources: what a controller asks of it while its jobs run.

use serde_json::Value;

use crate::{
    conditions::JobCondition,
    dlrover, edl,
    events::{EventInput, EventText},
    job_status::StatusInput,
    torchelastic,
};

/// How a dialect speaks of its jobs while they run.
pub struct Dialect {
    /// Its name, as [`flexor_model::Job::dialect`] has it.
    pub name: &'static str,
    /// What its jobs are called where a laptop cannot run them yet.
    pub missing_on_laptop: Option<&'static str>,
    pub(crate) conditions: fn(&StatusInput<'_>) -> Vec<JobCondition>,
    pub(crate) status: fn(&StatusInput<'_>) -> Value,
    pub(crate) event: fn(&EventInput<'_>) -> EventText,
}

impl Dialect {
    /// The conditions of a job: those that were written last, and what has changed since.
    pub fn conditions(&self, input: &StatusInput<'_>) -> Vec<JobCondition> {
        (self.conditions)(input)
    }

    /// The status of a job, as its kind has it.
    pub fn status(&self, input: &StatusInput<'_>) -> Value {
        (self.status)(input)
    }

    /// What an event about a job of this dialect says.
    pub fn event(&self, input: &EventInput<'_>) -> EventText {
        (self.event)(input)
    }
}

/// The dialect of this name, if it has custom resources.
pub fn dialect(name: &str) -> Option<&'static Dialect> {
    [&dlrover::DIALECT, &torchelastic::DIALECT, &edl::DIALECT].into_iter().find(|dialect| dialect.name == name)
}
