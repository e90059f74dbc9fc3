//! How long a pod stays bound to a node that is lost.

use serde_json::{Value, json};

/// Kubernetes gives pods five minutes there unless they say otherwise. Training waits for the lost pod all that time.
const SECONDS: u32 = 15;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds a toleration of 15 seconds for each of the two taints that the template does not tolerate itself.
pub(super) fn add(spec: &mut Value) {
    let own = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let is_set = |taint: &str| own.iter().any(|known| known["key"] == taint || known["key"].is_null());
    let missing = TAINTS.into_iter().filter(|taint| !is_set(taint));
    let missing = missing.map(
        |taint| json!({ "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS }),
    );
    let all: Vec<Value> = own.iter().cloned().chain(missing).collect();
    spec["tolerations"] = all.into();
}
