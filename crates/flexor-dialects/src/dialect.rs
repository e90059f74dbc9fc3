//! A dialect with custom resources: what a controller asks of it while its jobs run.

use flexor_engine::controller::{JobStatus, PlanStatus, StatusError, StoredStatus};
use flexor_model::{DnsLabel, Plan, UnixTime};
use serde::Deserialize;
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
    pub(crate) conditions: fn(&StatusInput<'_>) -> Vec<JobCondition>,
    pub(crate) status: fn(&StatusInput<'_>) -> Value,
    pub(crate) event: fn(&EventInput<'_>) -> EventText,
    /// Where a status has its conditions, as a JSON pointer.
    pub(crate) conditions_pointer: &'static str,
    /// How it writes and reads plans, if it has them.
    pub(crate) plans: Option<PlanForm>,
}

/// A dialect's plans: their manifests, and their status written and read.
pub(crate) struct PlanForm {
    pub(crate) manifest: fn(&Plan, &DnsLabel) -> Value,
    pub(crate) write: fn(PlanStatusInput<'_>) -> Value,
    pub(crate) read: fn(&Value) -> PlanStatus,
}

/// What a plan's status is written from.
#[derive(Debug, Clone, Copy)]
pub struct PlanStatusInput<'a> {
    /// What the controller has decided.
    pub status: &'a PlanStatus,
    pub created_at: UnixTime,
    /// The generation of the manifest, where it has one.
    pub generation: Option<i64>,
}

/// What a status says of the past: what its controller remembers, and the conditions that it wrote.
#[derive(Debug, Default)]
pub struct WrittenStatus {
    /// None for a job that no controller has taken up.
    pub status: Option<JobStatus>,
    pub conditions: Vec<JobCondition>,
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

    /// Reads back a status that [`status`](Self::status) wrote.
    ///
    /// # Errors
    ///
    /// Another version of Flexor wrote it, or it is damaged.
    pub fn read_status(&self, status: &Value) -> Result<WrittenStatus, StatusError> {
        let stored = status.get("flexor").filter(|stored| !stored.is_null());
        let stored = stored
            .map(StoredStatus::deserialize)
            .transpose()
            .map_err(|error| StatusError::Unreadable(error.to_string()))?;
        let conditions = status.pointer(self.conditions_pointer).map(Vec::deserialize);
        Ok(WrittenStatus {
            status: stored.map(JobStatus::try_from).transpose()?,
            conditions: conditions.and_then(Result::ok).unwrap_or_default(),
        })
    }

    /// The manifest of a plan in a namespace; none in a dialect without plans.
    pub fn plan_manifest(&self, plan: &Plan, namespace: &DnsLabel) -> Option<Value> {
        self.plans.as_ref().map(|form| (form.manifest)(plan, namespace))
    }

    /// The status of a plan, as its kind has it; none in a dialect without plans.
    pub fn plan_status(&self, input: PlanStatusInput<'_>) -> Option<Value> {
        self.plans.as_ref().map(|form| (form.write)(input))
    }

    /// Reads back a status that [`plan_status`](Self::plan_status) wrote. A plan without one has not begun.
    pub fn read_plan_status(&self, status: &Value) -> PlanStatus {
        self.plans.as_ref().map(|form| (form.read)(status)).unwrap_or_default()
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
