//! What the statuses of all kinds share: what they are written from, and the fields that Flexor adds to each.
//!
//! A dialect's `status.rs` turns a [`StatusInput`] into the status type of its kind. A controller, on a laptop or on a
//! cluster, writes what it gets and keeps the conditions for the next time.

use std::collections::BTreeMap;

use flexor_engine::controller::{JobStatus, SetBy, StoredStatus};
use flexor_model::{Job, ReplicaRange, RoleName, UnixTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::conditions::{self, JobCondition, TrueCondition};

/// What a job's status is written from.
#[derive(Debug)]
pub struct StatusInput<'a> {
    /// The job.
    pub job: &'a Job,
    /// The generation of its manifest.
    pub generation: u64,
    /// What the controller has decided.
    pub status: &'a JobStatus,
    /// Its pods by role.
    pub pods: &'a BTreeMap<RoleName, PodCounts>,
    /// The plan that is carried out.
    pub plan: Option<&'a str>,
    /// The conditions that were written last.
    pub conditions: &'a [JobCondition],
    /// The time of this status, for conditions that change.
    pub now: UnixTime,
}

/// How many pods of a role are in each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// Waiting to run.
    pub pending: u32,
    /// Running.
    pub active: u32,
    /// Ended well.
    pub succeeded: u32,
    /// Ended badly.
    pub failed: u32,
}

/// The target replicas of a role, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// How many replicas the role should have.
    pub replicas: i32,
    /// The fewest that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The most that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// `spec`, `planner`, or `scaleplan/` and the name of a plan.
    pub set_by: String,
    /// The generation of the job whose replicas were last taken over.
    pub generation: i64,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl StatusInput<'_> {
    pub(crate) fn reason(&self) -> Option<String> {
        self.status.cause.as_ref().map(|cause| cause.reason.to_string())
    }

    pub(crate) fn message(&self) -> Option<String> {
        self.status.cause.as_ref().map(|cause| cause.message.clone())
    }

    pub(crate) fn observed_generation(&self) -> Option<i64> {
        i64::try_from(self.generation).ok()
    }

    pub(crate) fn targets(&self) -> BTreeMap<String, TargetStatus> {
        let targets = self.status.targets.iter().map(|(role, target)| {
            let allowed = self.job.roles.iter().find(|known| known.name == *role).map(|known| known.size.allowed());
            let shown = TargetStatus {
                replicas: int(target.replicas).unwrap_or_default(),
                min_replicas: allowed.map(ReplicaRange::min).and_then(int),
                max_replicas: allowed.and_then(ReplicaRange::max).and_then(int),
                set_by: match &target.set_by {
                    SetBy::Spec | SetBy::Edit => "spec".to_owned(),
                    SetBy::Plan(plan) | SetBy::Auto(plan) => format!("scaleplan/{plan}"),
                    SetBy::Planner => "planner".to_owned(),
                },
                generation: i64::try_from(target.generation).unwrap_or(i64::MAX),
                reason: target.cause.reason.to_string(),
                message: target.cause.message.clone(),
            };
            (role.to_string(), shown)
        });
        targets.collect()
    }

    pub(crate) fn stored(&self) -> Option<StoredStatus> {
        Some(self.status.clone().into())
    }

    pub(crate) fn is_scaling(&self) -> bool {
        self.plan.is_some()
    }

    /// The pods of a role, which may have none.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&RoleName, PodCounts)> {
        let count = |name| self.pods.get(name).copied().unwrap_or_default();
        self.job.roles.iter().map(move |role| (&role.name, count(&role.name)))
    }

    /// The conditions of a job: `Created` where the dialect has it, and the one of its phase. `word` begins each reason,
    /// `noun` each message.
    pub(crate) fn phase_conditions(&self, has_created: bool, word: &str, noun: &str) -> Vec<JobCondition> {
        let mut conditions = self.conditions.to_vec();
        let name = &self.job.name;
        let mut set = |type_: &'static str, message: String, at| {
            let condition = TrueCondition { type_, reason: format!("{word}{type_}"), message };
            conditions::set(&mut conditions, condition, at);
        };
        let Some(created_at) = self.status.created_at else { return conditions };
        if has_created {
            set("Created", format!("{noun} {name} is created."), created_at);
        }
        let type_ = conditions::type_of(self.status.phase, self.is_scaling());
        let cause = self.status.cause.as_ref();
        let because = cause.map(|cause| format!(": {cause}")).unwrap_or_else(|| ".".to_owned());
        match type_ {
            "Pending" if !has_created && cause.is_none() => {}
            "Pending" => set(type_, format!("{noun} {name} is pending{because}"), self.now),
            "Running" => set(type_, format!("{noun} {name} is running."), self.now),
            "Scaling" => {
                let plan = self.plan.unwrap_or_default();
                set(type_, format!("{noun} {name} is scaling by {plan}."), self.now);
            }
            "Suspended" => set(type_, format!("{noun} {name} is suspended."), self.now),
            "Succeeded" => set(type_, format!("{noun} {name} successfully completed."), self.now),
            _ => set(type_, format!("{noun} {name} has failed{because}"), self.now),
        }
        conditions
    }
}

/// A status as JSON.
pub(crate) fn json(status: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(status).expect("a status is plain data")
}

/// A time as Kubernetes writes it.
pub(crate) fn time(at: Option<UnixTime>) -> Option<Time> {
    at.map(|at| Time(at.whole_second().into()))
}

/// A count as Kubernetes writes it.
pub(crate) fn int(count: u32) -> Option<i32> {
    Some(i32::try_from(count).unwrap_or(i32::MAX))
}

/// The schema of `status.flexor`.
///
/// What lies in a group of slots is left open on purpose: only the controller that wrote it reads it, it refuses a version
/// that it does not know, and a field that the schema lacked would be dropped by the API server without a word.
pub(crate) fn stored_status(_: &mut SchemaGenerator) -> Schema {
    let open = || json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let time = || json_schema!({"type": "string", "format": "date-time"});
    json_schema!({
        "description": "What the controller remembers of the job. Only the controller reads it.",
        "type": "object",
        "required": ["version"],
        "properties": {
            "version": {"description": "The version of this form.", "type": "integer", "format": "int32"},
            "controller": {"description": "The namespace of the operator that serves the job.", "type": "string"},
            "phase": {"type": "string"},
            "cause": open(),
            "createdAt": time(),
            "startedAt": time(),
            "finishedAt": time(),
            "givenUpAt": time(),
            "shortSince": time(),
            "targets": {"type": "object", "additionalProperties": open()},
            "sizeChanges": {
                "description": "The last changes of targets by the cluster's planner.",
                "type": "array",
                "items": open()
            },
            "roles": {
                "description": "The replica slots of each role.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "nextId": {"description": "The lowest id that no pod has had.", "type": "integer", "format": "int64"},
                        "counted": {"description": "Failures charged to the role.", "type": "integer", "format": "int64"},
                        "slots": {
                            "description": "Groups of slots of equal content; each run of ranks is [first rank, count, first id].",
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "ranks": {
                                        "type": "array",
                                        "items": {"type": "array", "items": {"type": "integer", "format": "int64"}}
                                    }
                                },
                                "x-kubernetes-preserve-unknown-fields": true
                            }
                        }
                    }
                }
            }
        }
    })
}
