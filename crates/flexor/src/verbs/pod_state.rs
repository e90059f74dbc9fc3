//! The columns READY, STATUS and RESTARTS of pods, computed as kubectl computes them.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub struct PodState {
    /// Ready containers of all, such as `1/2`.
    pub ready: String,
    pub status: String,
    /// Restarts of all containers.
    pub restarts: u64,
}

pub fn of(pod: &Value) -> PodState {
    let status = &pod["status"];
    let mains = list(&status["containerStatuses"]);
    let sidecars: Vec<&Value> =
        list(&status["initContainerStatuses"]).iter().filter(|one| is_sidecar(pod, one)).collect();
    let counted = || mains.iter().chain(sidecars.iter().copied());
    let planned = list(&pod["spec"]["containers"]).len().max(mains.len()) + sidecars.len();
    PodState {
        ready: format!("{}/{planned}", counted().filter(|one| one["ready"] == true).count()),
        status: status_word(pod, mains),
        restarts: counted().filter_map(|one| one["restartCount"].as_u64()).sum(),
    }
}

fn status_word(pod: &Value, mains: &[Value]) -> String {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return "Terminating".to_owned();
    }
    if let Some(reason) = status["reason"].as_str() {
        return reason.to_owned();
    }
    if let Some(word) = init_word(pod, mains) {
        return word;
    }
    let is_running = mains.iter().any(|one| one["ready"] == true);
    // The last container with a reason.
    let reason = mains.iter().rev().find_map(|one| {
        let state = &one["state"];
        let ended = &state["terminated"];
        state["waiting"]["reason"].as_str().or(ended["reason"].as_str()).map(str::to_owned)
    });
    match reason {
        Some(reason) if reason == "Completed" && is_running => phase.to_owned(),
        Some(reason) => reason,
        None => phase.to_owned(),
    }
}

/// The status of init containers, until a main container has started.
fn init_word(pod: &Value, mains: &[Value]) -> Option<String> {
    let has_begun = |one: &Value| one["state"]["running"].is_object() || one["state"]["terminated"].is_object();
    if mains.iter().any(has_begun) {
        return None;
    }
    let first = list(&pod["status"]["initContainerStatuses"]);
    let is_past = |one: &&Value| one["ready"] == true && (is_sidecar(pod, one) || one["state"]["running"].is_null());
    let past = first.iter().take_while(is_past).count();
    let one = first.get(past)?;
    let ended = &one["state"]["terminated"];
    Some(match (ended["reason"].as_str(), ended["exitCode"].as_i64()) {
        (Some(reason), Some(1..)) => format!("Init:{reason}"),
        _ => format!("Init:{past}/{}", first.len()),
    })
}

fn is_sidecar(pod: &Value, status: &Value) -> bool {
    let named = |one: &&Value| one["name"] == status["name"];
    list(&pod["spec"]["initContainers"]).iter().find(named).is_some_and(|one| one["restartPolicy"] == "Always")
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(init: Value, mains: Value) -> Value {
        json!({
            "metadata": {},
            "spec": { "initContainers": [{ "name": "side", "restartPolicy": "Always" }, { "name": "first" }] },
            "status": { "phase": "Running", "initContainerStatuses": init, "containerStatuses": mains },
        })
    }

    fn running(name: &str) -> Value {
        json!({ "name": name, "ready": true, "restartCount": 1, "state": { "running": {} } })
    }

    fn ended(name: &str, code: i64, reason: &str) -> Value {
        let ready = name == "first" && code == 0;
        json!({ "name": name, "ready": ready, "restartCount": 0,
                "state": { "terminated": { "exitCode": code, "reason": reason } } })
    }

    fn columns(pod: &Value) -> (String, String, u64) {
        let PodState { ready, status, restarts } = of(pod);
        (ready, status, restarts)
    }

    #[test]
    fn columns_are_those_of_kubectl() {
        let both = || json!([running("side"), ended("first", 0, "Completed")]);
        let text = |a: &str, b: &str, n: u64| (a.to_owned(), b.to_owned(), n);
        assert_eq!(columns(&pod(both(), json!([running("main")]))), text("2/2", "Running", 2));
        assert_eq!(columns(&pod(both(), json!([ended("main", 1, "Error")]))), text("1/2", "Error", 1));
        assert_eq!(columns(&pod(json!([]), json!([ended("main", 0, "Completed")]))), text("0/1", "Completed", 0));
        let over = json!([ended("side", 143, "Error"), ended("first", 0, "Completed")]);
        assert_eq!(columns(&pod(over, json!([ended("main", 0, "Completed")]))), text("0/2", "Completed", 0));
        let waits = json!([running("side"), running("first")]);
        let creating = json!([{ "name": "main", "state": { "waiting": { "reason": "ContainerCreating" } } }]);
        assert_eq!(columns(&pod(waits, creating.clone())).1, "Init:1/2");
        assert_eq!(columns(&pod(both(), creating)).1, "ContainerCreating");
        let failed = json!([running("side"), ended("first", 2, "Error")]);
        assert_eq!(columns(&pod(failed, json!([]))).1, "Init:Error");
        let mut going = pod(both(), json!([running("main")]));
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(columns(&going).1, "Terminating");
    }
}
