//! What the operator has created, as the API server wrote it down.

use std::collections::BTreeMap;

use flexor_testbed::Cluster;
use serde_json::Value;

const OPERATOR: &str = "system:serviceaccount:flexor-system:flexor-operator";

/// How often the operator has created each object of a resource in a namespace.
pub fn creations(cluster: &Cluster, namespace: &str, resource: &str) -> BTreeMap<String, u32> {
    let log = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let mut created = BTreeMap::new();
    for request in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let object = &request["objectRef"];
        let is_meant =
            object["resource"] == resource && object["subresource"].is_null() && object["namespace"] == namespace;
        let is_done = request["verb"] == "create" && request["responseStatus"]["code"] == 201;
        if is_meant && is_done && request["user"]["username"] == OPERATOR {
            *created.entry(object["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    created
}
