//! What the table of pods says in READY, STATUS and RESTARTS, found as kubectl finds it.

use serde_json::Value;

/// How a pod stands.
#[derive(Debug, PartialEq, Eq)]
pub struct PodState {
    /// Containers that are ready, of all.
    pub ready: String,
    /// In a word.
    pub status: String,
    /// How often containers were started again.
    pub restarts: u64,
}

/// How a pod stands.
pub fn of(pod: &Value) -> PodState {
    let status = &pod["status"];
    let mains = list(&status["containerStatuses"]);
    let sidecars: Vec<&Value> =
        list(&status["initContainerStatuses"]).iter().filter(|one| is_sidecar(pod, one)).collect();
    let counted = || mains.iter().chain(sidecars.iter().copied());
    let planned = list(&pod["spec"]["containers"]).len().max(mains.len()) + sidecars.len();
    PodState {
        ready: format!("{}/{planned}", counted().filter(|one| one["ready"] == true).count()),
        status: word(pod, mains),
        restarts: counted().filter_map(|one| one["restartCount"].as_u64()).sum(),
    }
}

fn word(pod: &Value, mains: &[Value]) -> String {
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
    // The last one that has something to say.
    let said = mains.iter().rev().find_map(|one| {
        let state = &one["state"];
        let ended = &state["terminated"];
        state["waiting"]["reason"].as_str().or(ended["reason"].as_str()).map(str::to_owned)
    });
    match said {
        Some(said) if said == "Completed" && is_running => phase.to_owned(),
        Some(said) => said,
        None => phase.to_owned(),
    }
}

/// What containers that come first have to say, until the others have begun.
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

    fn told(pod: &Value) -> (String, String, u64) {
        let PodState { ready, status, restarts } = of(pod);
        (ready, status, restarts)
    }

    #[test]
    fn a_pod_stands_as_kubectl_would_say() {
        let both = || json!([running("side"), ended("first", 0, "Completed")]);
        let text = |a: &str, b: &str, n: u64| (a.to_owned(), b.to_owned(), n);
        assert_eq!(told(&pod(both(), json!([running("main")]))), text("2/2", "Running", 2));
        assert_eq!(told(&pod(both(), json!([ended("main", 1, "Error")]))), text("1/2", "Error", 1));
        assert_eq!(told(&pod(json!([]), json!([ended("main", 0, "Completed")]))), text("0/1", "Completed", 0));
        let over = json!([ended("side", 143, "Error"), ended("first", 0, "Completed")]);
        assert_eq!(told(&pod(over, json!([ended("main", 0, "Completed")]))), text("0/2", "Completed", 0));
        let waits = json!([running("side"), running("first")]);
        let creating = json!([{ "name": "main", "state": { "waiting": { "reason": "ContainerCreating" } } }]);
        assert_eq!(told(&pod(waits, creating.clone())).1, "Init:1/2");
        assert_eq!(told(&pod(both(), creating)).1, "ContainerCreating");
        let failed = json!([running("side"), ended("first", 2, "Error")]);
        assert_eq!(told(&pod(failed, json!([]))).1, "Init:Error");
        let mut going = pod(both(), json!([running("main")]));
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(told(&going).1, "Terminating");
    }
}
