//! What `flexor why` says of a job that sizes itself: its pace, its automatic plans with reason and result, and the roles
//! that are left alone because a person has set them.

use flexor_engine::controller::{JobStatus, SetBy, Target};
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
pub fn held_roles(job: &Value, plans: &[Value], events: &[Value], now: Timestamp) -> String {
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
        let since = since_when(target, &name, plans, events, now);
        lines.push_str(&format!("  {role}: set by {who}{since}; `flexor scale {name} --auto` gives it back\n"));
    }
    titled("Roles that automatic sizing leaves alone", &lines)
}

/// How long ago a target was set: by its event while that is kept, else by the plan that has set it. Of an edit only
/// its event knows the time; without it the edit came before the oldest event that is kept.
fn since_when(target: &Target, job: &str, plans: &[Value], events: &[Value], now: Timestamp) -> String {
    let is_it =
        |event: &&Value| event["reason"] == target.cause.reason.as_str() && event["message"] == *target.cause.message;
    if let Some(event) = events.iter().rev().find(is_it) {
        return format!(" {} ago", age::since(&event["lastTimestamp"], now));
    }
    let of_target = |plan: &&Value| {
        plan["spec"]["ownerJob"] == *job
            && matches!(&target.set_by, SetBy::Plan(name) if plan["metadata"]["name"] == **name)
    };
    if let Some(plan) = plans.iter().find(of_target) {
        return format!(" that came {} ago", age::since(&plan["metadata"]["creationTimestamp"], now));
    }
    match events.first() {
        Some(oldest) => format!(" more than {} ago", age::since(&oldest["lastTimestamp"], now)),
        None => ", no event tells when".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use flexor_engine::Cause;
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

    fn target(set_by: SetBy, cause: Cause) -> Target {
        Target {
            replicas: 2,
            resources: Resources::default(),
            set_by,
            generation: 1,
            spec_replicas: 1,
            wanted: None,
            vacant: BTreeSet::new(),
            promised: BTreeMap::new(),
            cause,
        }
    }

    /// A job whose servers were set by a plan.
    fn job(worker: Target) -> Value {
        let servers = Cause::new(Reason::SizeFromPlan, "2 replicas of ps, as the plan two says");
        let targets = [("ps", target(SetBy::Plan("two".to_owned()), servers)), ("worker", worker)];
        let targets: BTreeMap<_, _> =
            targets.into_iter().map(|(role, target)| (role.parse().unwrap(), target)).collect();
        let stored = JobStatus { targets, ..JobStatus::default() };
        json!({
            "metadata": { "name": "deep" },
            "spec": {
                "distributionStrategy": "ParameterServerStrategy",
                "replicaSpecs": { "ps": {}, "worker": { "autoScale": true } },
            },
            "status": { "flexor": stored },
        })
    }

    fn edited() -> Target {
        target(SetBy::Edit, Cause::new(Reason::SizeFromSpec, "2 replicas of worker, as the job says"))
    }

    fn event(reason: &str, message: &str, at: &str) -> Value {
        json!({ "reason": reason, "message": message, "lastTimestamp": at })
    }

    #[test]
    fn a_role_that_a_person_has_set_is_named_with_who_and_since_when() {
        let events = [
            event("SizeFromPlan", "2 replicas of ps, as the plan two says", "2026-01-01T00:01:00Z"),
            event("SizeFromPlan", "2 replicas of ps, as the plan two says", "2026-01-01T00:03:00Z"),
            event("SizeFromSpec", "2 replicas of worker, as the job says", "2026-01-01T00:03:10Z"),
        ];
        insta::assert_snapshot!(held_roles(&job(edited()), &[], &events, now()), @r"
        Roles that automatic sizing leaves alone:
          ps: set by the plan two 20s ago; `flexor scale deep --auto` gives it back
          worker: set by an edit of the job 10s ago; `flexor scale deep --auto` gives it back
        ");
        let automatic = target(SetBy::Auto("deep-auto-0".to_owned()), edited().cause);
        insta::assert_snapshot!(held_roles(&job(automatic), &[], &events, now()), @r"
        Roles that automatic sizing leaves alone:
          ps: set by the plan two 20s ago; `flexor scale deep --auto` gives it back
        ");
    }

    #[test]
    fn a_role_whose_event_is_gone_is_named_with_what_is_known_of_its_time() {
        let plan = |name: &str, job: &str, at: &str| {
            let metadata = json!({ "name": name, "creationTimestamp": at });
            json!({ "metadata": metadata, "spec": { "ownerJob": job } })
        };
        let plans = [
            plan("one", "deep", "2026-01-01T00:00:01Z"),
            plan("two", "other", "2026-01-01T00:00:02Z"),
            plan("two", "deep", "2026-01-01T00:00:05Z"),
        ];
        let oldest = event("PodRuns", "deep-edljob-worker-0", "2026-01-01T00:02:00Z");
        let newest = event("SizeFromPlan", "3 replicas of ps, as the plan one says", "2026-01-01T00:03:00Z");
        insta::assert_snapshot!(held_roles(&job(edited()), &plans, &[oldest, newest], now()), @r"
        Roles that automatic sizing leaves alone:
          ps: set by the plan two that came 3m15s ago; `flexor scale deep --auto` gives it back
          worker: set by an edit of the job more than 80s ago; `flexor scale deep --auto` gives it back
        ");
        insta::assert_snapshot!(held_roles(&job(edited()), &[], &[], now()), @r"
        Roles that automatic sizing leaves alone:
          ps: set by the plan two, no event tells when; `flexor scale deep --auto` gives it back
          worker: set by an edit of the job, no event tells when; `flexor scale deep --auto` gives it back
        ");
    }
}
