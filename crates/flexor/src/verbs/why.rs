//! `flexor why`: why a job is in its phase, why its roles have their target replicas, and the last decisions.

mod sizing;

use std::time::Duration;

use flexor_engine::controller::{JobStatus, SizeChange};
use flexor_local::api::{Client, Resource};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::args::WhyArgs;
use super::events::is_about_job;
use super::kinds::ObjectKind;
use super::pod_state::list;
use super::table::Table;
use super::{age, cells, fetch, pace};
use crate::exit::Exit;
use crate::output::{self, on_one_line};

/// How many of the last decisions are shown.
const LAST: usize = 10;

pub async fn run(client: &Client, args: &WhyArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.namespace.as_str();
    let name = fetch::job_name(&args.words)?;
    let (kind, job) = fetch::job(client, namespace, name).await?;
    let mut pods = client.list(Resource::Pods, Some(namespace)).await?;
    pods.retain(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]);
    let mut events = client.list(Resource::Events, Some(namespace)).await?;
    events.retain(|event| is_about_job(event, name));
    let plans = client.list(Resource::Plans, Some(namespace)).await?;
    let open = plans.iter().filter(|plan| {
        plan["spec"]["ownerJob"] == *name && matches!(plan["status"]["phase"].as_str(), Some("Pending" | "Scaling"))
    });
    let metrics = pace::of(client, namespace, name).await?;
    let now = Timestamp::now();
    let parts = [
        format!("{}{}{}", headline(&kind, &job, now), halted(&job), sizing::pace(&metrics)),
        sizes(&job),
        titled("Sizes from the cluster's planner", &indented(&size_changes(&job, now))),
        sizing::held_roles(&job, &plans, &events, now),
        titled("Slots", &indented(&slots(&job, now))),
        waiting(open),
        sizing::automatic_plans(&job, &plans, now),
        troubles(&pods),
        decisions(&events, now),
    ];
    let told: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    output::text(&told.join("\n"))?;
    Ok(Exit::Success)
}

fn headline(kind: &ObjectKind, job: &Value, now: Timestamp) -> String {
    let status = &job["status"];
    let name = cells::text(&job["metadata"]["name"]);
    let phase = cells::text(&status["phase"]);
    let came = age::since(&job["metadata"]["creationTimestamp"], now);
    let cause = match cause(status) {
        Some(cause) => format!(": {cause}"),
        None => ": none of its workers has run yet".to_owned(),
    };
    format!("{}/{name} came {came} ago and is {phase}{cause}\n", kind.full_name())
}

/// Why nothing is trained although nothing is wrong: the targets of workers or of parameter servers are zero.
fn halted(job: &Value) -> String {
    let status = &job["status"];
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed" | "Suspended")) {
        return String::new();
    }
    // All replicas of some roles; nothing where the job has none of them.
    let wanted = |roles: &[&str]| {
        let targets = roles.iter().filter_map(|role| status["targets"][*role]["replicas"].as_u64());
        targets.reduce(|all, more| all + more)
    };
    let name = cells::text(&job["metadata"]["name"]);
    let why = if wanted(&["worker", "chief", "Worker"]) == Some(0) {
        let option = if status["targets"]["Worker"].is_object() { "--replicas" } else { "--worker" };
        format!("it is to have no workers; `flexor scale {name} {option} 1` gives it one")
    } else if wanted(&["ps"]) == Some(0) {
        format!(
            "its workers wait for a parameter server, and it is to have none; `flexor scale {name} --ps 1` gives it one"
        )
    } else {
        return String::new();
    };
    format!("Nothing is trained: {why}\n")
}

/// A table of the roles: target replicas, running pods, and who set the target.
pub fn sizes(job: &Value) -> String {
    let heading = ["ROLE", "WANTED", "RUNNING", "ALLOWED", "SET BY", "WHY"];
    let mut table = Table::new(heading.map(str::to_owned).into());
    let status = &job["status"];
    let counts = if status["replicaStatuses"].is_object() { status } else { &status["status"] };
    let row = |(role, target): (&String, &Value)| {
        vec![
            role.clone(),
            cells::text(&target["replicas"]),
            cells::text(&counts["replicaStatuses"][role.as_str()]["active"]),
            allowed(target),
            cells::text(&target["setBy"]),
            cause(target).unwrap_or_default(),
        ]
    };
    let targets = status["targets"].as_object().into_iter().flatten();
    table.rows(&targets.map(row).collect::<Vec<_>>())
}

/// The allowed replicas of a role.
pub fn allowed(target: &Value) -> String {
    let (least, most) = (cells::text(&target["minReplicas"]), cells::text(&target["maxReplicas"]));
    match most.as_str() {
        "" => format!("{least} or more"),
        most if most == least => least,
        most => format!("{least}..{most}"),
    }
}

/// The slots that were filled more than once, back off, or have ended: a line each.
pub fn slots(job: &Value, now: Timestamp) -> String {
    // A status of another version is one that this program cannot read.
    let Ok(status) = JobStatus::deserialize(&job["status"]["flexor"]) else { return String::new() };
    let mut lines = String::new();
    for (role, slots) in &status.roles {
        for (rank, slot) in &slots.slots {
            let mut parts = Vec::new();
            match slot.relaunches {
                0 => {}
                1 => parts.push("was filled again once".to_owned()),
                times => parts.push(format!("was filled again {times} times")),
            }
            if let Some(at) = slot.not_before.map(Timestamp::from).filter(|at| *at > now) {
                parts.push(format!("is filled again in {} s", at.duration_since(now).as_secs()));
            }
            match &slot.end {
                Some(end) if end.succeeded => parts.push("has done its work".to_owned()),
                Some(end) => parts.push(format!("is given up: {}", on_one_line(&end.cause.to_string()))),
                None => {}
            }
            if !parts.is_empty() {
                lines.push_str(&format!("{role} {rank}: {}\n", parts.join(", ")));
            }
        }
    }
    lines
}

/// The last changes of targets by the cluster's planner: a line each, the newest last.
fn size_changes(job: &Value, now: Timestamp) -> String {
    let Ok(status) = JobStatus::deserialize(&job["status"]["flexor"]) else { return String::new() };
    let line = |change: &SizeChange| {
        let age = Duration::try_from(now.duration_since(Timestamp::from(change.at))).unwrap_or_default();
        format!("{} ago {}\n", age::text(age), on_one_line(&change.message))
    };
    status.size_changes.iter().map(line).collect()
}

fn waiting<'a>(plans: impl Iterator<Item = &'a Value>) -> String {
    let line = |plan: &Value| {
        let cause = cause(&plan["status"]).map(|cause| format!(": {cause}")).unwrap_or_default();
        let (name, phase) = (cells::text(&plan["metadata"]["name"]), cells::text(&plan["status"]["phase"]));
        format!("  {name} is {phase}{cause}\n")
    };
    titled("Plans that are not done", &plans.map(line).collect::<String>())
}

/// The pods that do not run, and why.
fn troubles(pods: &[Value]) -> String {
    let mut lines = String::new();
    for pod in pods {
        let state = super::pod_state::of(pod);
        if matches!(state.status.as_str(), "Running" | "Completed") {
            continue;
        }
        let waits = list(&pod["status"]["conditions"]).iter().find_map(|condition| condition["message"].as_str());
        let message = pod["status"]["message"].as_str().or(waits).map(str::to_owned);
        let ends = list(&pod["status"]["containerStatuses"]).iter().map(|one| &one["state"]["terminated"]);
        let ended = ends.filter(|end| end.is_object()).map(|end| format!("exit code {}", end["exitCode"])).next();
        let why = message.or(ended).map(|why| format!(", {}", on_one_line(&why))).unwrap_or_default();
        lines.push_str(&format!("  {} is {}{why}\n", cells::text(&pod["metadata"]["name"]), state.status));
    }
    titled("Pods that do not run", &lines)
}

fn decisions(events: &[Value], now: Timestamp) -> String {
    let last = &events[events.len().saturating_sub(LAST)..];
    let row = |event: &Value| {
        let ago = format!("  {} ago", age::since(&event["lastTimestamp"], now));
        let why = format!("{}: {}", cells::text(&event["reason"]), cells::text(&event["message"]));
        vec![ago, cells::about(event), why]
    };
    let rows: Vec<Vec<String>> = last.iter().map(row).collect();
    let mut table = Table::new(vec!["Last decisions:".to_owned(), String::new(), String::new()]);
    table.rows(&rows)
}

fn titled(title: &str, lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("{title}:\n{lines}") }
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// The reason and message of a status, if it has them.
pub fn cause(of: &Value) -> Option<String> {
    let reason = of["reason"].as_str()?;
    Some(on_one_line(&format!("{reason}: {}", cells::text(&of["message"]))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_is_to_have_nobody_says_what_it_waits_for() {
        let told = |phase: &str, targets: &Value| {
            let targets = targets.as_object().unwrap().iter().map(|(role, size)| (role, json!({ "replicas": size })));
            let targets: serde_json::Map<String, Value> = targets.map(|(role, size)| (role.clone(), size)).collect();
            halted(&json!({ "metadata": { "name": "deep" }, "status": { "phase": phase, "targets": targets } }))
        };
        let ps = "Nothing is trained: its workers wait for a parameter server, and it is to have none; \
                  `flexor scale deep --ps 1` gives it one\n";
        assert_eq!(told("Running", &json!({ "ps": 0, "worker": 2 })), ps);
        let workers = "Nothing is trained: it is to have no workers; `flexor scale deep --worker 1` gives it one\n";
        assert_eq!(told("Pending", &json!({ "ps": 2, "worker": 0 })), workers);
        assert_eq!(told("Running", &json!({ "ps": 2, "worker": 0, "chief": 1 })), "");
        assert_eq!(told("Running", &json!({ "evaluator": 1 })), "");
        assert_eq!(told("Succeeded", &json!({ "ps": 0, "worker": 2 })), "");
        assert!(told("Running", &json!({ "Worker": 0 })).contains("--replicas 1"));
    }
}
