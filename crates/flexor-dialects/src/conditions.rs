//! Conditions of a job in its status, in the shape and by the rules that kubeflow gave them.
//!
//! There is one condition of each type. What a condition says about the past stays: when the job leaves a phase, the
//! condition of that phase becomes False and keeps its place in the list.

use flexor_engine::controller::Phase;
use flexor_model::UnixTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that is or is not so about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCondition {
    /// Created, Pending, Running, Scaling, Suspended, Succeeded or Failed.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the reason or the message last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A condition that is to be True.
pub(crate) struct TrueCondition {
    pub(crate) type_: &'static str,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The conditions once this one is True, which makes those of other phases False.
pub(crate) fn set(conditions: &mut Vec<JobCondition>, condition: TrueCondition, now: UnixTime) {
    if is_true(conditions, "Failed") {
        return;
    }
    let now = Time(now.whole_second().into());
    for other in conditions.iter_mut().filter(|other| other.status == "True") {
        if ends(condition.type_, &other.type_) {
            other.status = "False".to_owned();
            (other.last_update_time, other.last_transition_time) = (Some(now.clone()), Some(now.clone()));
        }
    }
    let TrueCondition { type_, reason, message } = condition;
    let (reason, message) = (Some(reason), Some(message));
    let known = conditions.iter().position(|known| known.type_ == type_);
    let is_unchanged =
        |known: &JobCondition| known.status == "True" && known.reason == reason && known.message == message;
    if known.is_some_and(|index| is_unchanged(&conditions[index])) {
        return;
    }
    let known = known.map(|index| conditions.remove(index)).filter(|known| known.status == "True");
    conditions.push(JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason,
        message,
        last_update_time: Some(now.clone()),
        last_transition_time: known.and_then(|known| known.last_transition_time).or(Some(now)),
    });
}

/// Whether a condition makes another False: a job is in one phase at a time, and one that scales still runs.
fn ends(condition: &str, other: &str) -> bool {
    let is_phase = matches!(other, "Pending" | "Running" | "Scaling" | "Suspended");
    is_phase && condition != other && condition != "Created" && (condition, other) != ("Scaling", "Running")
}

fn is_true(conditions: &[JobCondition], type_: &str) -> bool {
    conditions.iter().any(|known| known.type_ == type_ && known.status == "True")
}

/// The type of the condition that stands for a phase.
pub(crate) fn type_of(phase: Phase, is_scaling: bool) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running if is_scaling => "Scaling",
        Phase::Running => "Running",
        Phase::Suspended => "Suspended",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_at(conditions: &mut Vec<JobCondition>, type_: &'static str, message: &str, second: u64) {
        let condition = TrueCondition { type_, reason: format!("Job{type_}"), message: message.to_owned() };
        set(conditions, condition, UnixTime::from_secs(second));
    }

    /// Type, status, and the seconds of the last transition and update.
    fn shown(conditions: &[JobCondition]) -> Vec<(&str, &str, i64, i64)> {
        let second = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
        let shown = |known: &JobCondition| (second(&known.last_transition_time), second(&known.last_update_time));
        conditions.iter().map(|known| (&*known.type_, &*known.status, shown(known).0, shown(known).1)).collect()
    }

    #[test]
    fn the_past_of_a_job_stays_in_its_conditions() {
        let mut conditions = Vec::new();
        for (second, type_) in (1..).zip(["Created", "Pending", "Running", "Scaling", "Running", "Succeeded"]) {
            set_at(&mut conditions, type_, "", second);
        }
        let expected = [
            ("Created", "True", 1, 1),
            ("Pending", "False", 3, 3),
            ("Running", "False", 6, 6),
            ("Scaling", "False", 5, 5),
            ("Succeeded", "True", 6, 6),
        ];
        assert_eq!(shown(&conditions), expected);
    }

    #[test]
    fn a_condition_that_stays_true_keeps_its_transition_time() {
        let mut conditions = Vec::new();
        set_at(&mut conditions, "Running", "one", 1);
        set_at(&mut conditions, "Running", "one", 2);
        assert_eq!(shown(&conditions), [("Running", "True", 1, 1)]);
        set_at(&mut conditions, "Running", "two", 3);
        assert_eq!(shown(&conditions), [("Running", "True", 1, 3)]);
        set_at(&mut conditions, "Suspended", "", 4);
        set_at(&mut conditions, "Running", "two", 5);
        assert_eq!(shown(&conditions), [("Suspended", "False", 5, 5), ("Running", "True", 5, 5)]);
    }

    #[test]
    fn nothing_follows_a_failure() {
        let mut conditions = Vec::new();
        set_at(&mut conditions, "Failed", "", 1);
        set_at(&mut conditions, "Running", "", 2);
        assert_eq!(shown(&conditions), [("Failed", "True", 1, 1)]);
    }
}
