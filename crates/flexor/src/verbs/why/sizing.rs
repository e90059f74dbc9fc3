//! What `flexor why` says of a job that sizes itself: its pace, its automatic plans with reason and result, and the roles
//! that are left alone because a person has set them.

use flexor_engine::controller::{JobStatus, SetBy};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{cause, titled};
use crate::output::on_one_line;
use crate::verbs::scale::automatic_roles;
use crate::verbs::{age, cells, pace};

/// The label of plans that tells who made them.
const SCALE_TYPE: &str = "scale-type";
/// The annotation that says what a plan is for.
const MESSAGE: &str = "flexor.dev/message";

/// The pace of a job, if it trains.
pub fn pace(metrics: &Value) -> String {
    if metrics["stepsPerSecond"].is_null() { String::new() } else { format!("Pace: {}\n", pace::in_words(metrics)) }
}

/// The plans that the job's master has proposed: why, and what they have brought.
pub fn automatic_plans(job: &Value, plans: &[Value], now: Timestamp) -> String {
    let metadata = &job["metadata"];
    let is_automatic = |plan: &&Value| {
        plan["spec"]["ownerJob"] == metadata["name"] && plan["metadata"]["labels"][SCALE_TYPE] == "auto"
    };
    let mut automatic: Vec<&Value> = plans.iter().filter(is_automatic).collect();
    automatic.sort_by_key(|plan| number(plan));
    let lines = automatic.into_iter().map(|plan| {
        let metadata = &plan["metadata"];
        let (name, phase) = (cells::text(&metadata["name"]), cells::text(&plan["status"]["phase"]));
        let came = age::since(&metadata["creationTimestamp"], now);
        let why = on_one_line(&cells::text(&metadata["annotations"][MESSAGE]));
        let result = cause(&plan["status"]).map(|cause| format!("    {cause}\n")).unwrap_or_default();
        format!("  {name} came {came} ago and is {phase}\n    {why}\n{result}")
    });
    titled("Automatic plans", &lines.collect::<String>())
}

/// The number at the end of a plan's name.
fn number(plan: &Value) -> u32 {
    let name = plan["metadata"]["name"].as_str().unwrap_or_default();
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The roles that automatic sizing leaves alone: since when, and who has set them.
pub fn held_roles(job: &Value, events: &[Value], now: Timestamp) -> String {
    let Ok(status) = JobStatus::deserialize(&job["status"]["flexor"]) else { return String::new() };
    let name = cells::text(&job["metadata"]["name"]);
    let mut lines = String::new();
    for role in automatic_roles(job) {
        let target = status.targets.iter().find(|(known, _)| known.as_str() == role).map(|(_, target)| target);
        let Some(target) = target else { continue };
        let who = match &target.set_by {
            SetBy::Edit => "an edit of the job".to_owned(),
            SetBy::Plan(plan) => format!("the plan {plan}"),
            SetBy::Spec | SetBy::Auto(_) | SetBy::Planner => continue,
        };
        let is_it = |event: &&Value| {
            event["reason"] == target.cause.reason.as_str() && event["message"] == *target.cause.message
        };
        let since = events.iter().rev().find(is_it).map(|event| age::since(&event["lastTimestamp"], now));
        let since = since.map(|since| format!(" {since} ago")).unwrap_or_default();
        lines.push_str(&format!("  {role}: set by {who}{since}; `flexor scale {name} --auto` gives it back\n"));
    }
    titled("Roles that automatic sizing leaves alone", &lines)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use flexor_engine::Cause;
    use flexor_engine::controller::Target;
    use flexor_model::{Reason, Resources};
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:03:20Z".parse().unwrap()
    }

    #[test]
    fn an_automatic_plan_is_shown_with_its_reason_and_its_result() {
        let plan = |number: u32, kind: &str, status: Value| {
            json!({
                "metadata": {
                    "name": format!("deep-auto-{number}"), "labels": { "scale-type": kind },
                    "annotations": { "flexor.dev/message": "3 workers more: 31 → 124 steps/s expected" },
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "spec": { "ownerJob": "deep" }, "status": status,
            })
        };
        let done = json!({
            "phase": "Succeeded", "reason": "PlanMeasured",
            "message": "deep-auto-2: 3 workers more: 31 → 124 steps/s expected, 118 measured",
        });
        let plans =
            [plan(10, "auto", json!({ "phase": "Scaling" })), plan(2, "auto", done), plan(3, "manual", json!({}))];
        let shown = automatic_plans(&json!({ "metadata": { "name": "deep" } }), &plans, now());
        insta::assert_snapshot!(shown, @r"
        Automatic plans:
          deep-auto-2 came 3m20s ago and is Succeeded
            3 workers more: 31 → 124 steps/s expected
            PlanMeasured: deep-auto-2: 3 workers more: 31 → 124 steps/s expected, 118 measured
          deep-auto-10 came 3m20s ago and is Scaling
            3 workers more: 31 → 124 steps/s expected
        ");
    }

    #[test]
    fn a_role_that_a_person_has_set_is_named_with_who_and_since_when() {
        let target = |set_by| Target {
            replicas: 2,
            resources: Resources::default(),
            set_by,
            generation: 1,
            spec_replicas: 1,
            wanted: None,
            vacant: BTreeSet::new(),
            promised: BTreeMap::new(),
            cause: Cause::new(Reason::SizeFromPlan, "2 replicas of ps, as the plan two says"),
        };
        let targets = [("ps", SetBy::Plan("two".to_owned())), ("worker", SetBy::Auto("deep-auto-0".to_owned()))];
        let targets: BTreeMap<_, _> =
            targets.into_iter().map(|(role, set_by)| (role.parse().unwrap(), target(set_by))).collect();
        let stored = JobStatus { targets, ..JobStatus::default() };
        let job = json!({
            "metadata": { "name": "deep" },
            "spec": {
                "distributionStrategy": "ParameterServerStrategy",
                "replicaSpecs": { "ps": {}, "worker": { "autoScale": true } },
            },
            "status": { "flexor": stored },
        });
        let event = json!({
            "reason": "SizeFromPlan", "message": "2 replicas of ps, as the plan two says",
            "lastTimestamp": "2026-01-01T00:03:00Z",
        });
        insta::assert_snapshot!(held_roles(&job, &[event], now()), @r"
        Roles that automatic sizing leaves alone:
          ps: set by the plan two 20s ago; `flexor scale deep --auto` gives it back
        ");
    }
}
