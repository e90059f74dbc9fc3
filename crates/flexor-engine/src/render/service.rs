//! A complete Service for a desired service.

use flexor_model::Role;
use serde_json::{Map, Value, json};

use super::{JOB_UID_LABEL, ROLE_LABEL, RenderContext, owner_reference};
use crate::controller::DesiredService;

/// The complete `v1` Service. One without ports is headless: it only gives the pods behind it their names.
pub fn service(context: &RenderContext<'_>, role: &Role, desired: &DesiredService) -> Value {
    let mut labels: Map<String, Value> =
        desired.selector.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
    labels.insert(JOB_UID_LABEL.to_owned(), context.uid.to_string().into());
    labels.insert(ROLE_LABEL.to_owned(), role.name.to_string().into());
    let ports = role.service.iter().flat_map(|rule| &rule.ports);
    let ports: Vec<Value> =
        ports.map(|port| json!({ "name": port.name, "port": port.port, "targetPort": port.port })).collect();
    // Peers meet before any of them is ready.
    let mut spec = json!({ "selector": desired.selector, "publishNotReadyAddresses": true });
    if ports.is_empty() {
        spec["clusterIP"] = "None".into();
    } else {
        spec["ports"] = ports.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": desired.name,
            "namespace": context.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(context.owner)],
        },
        "spec": spec,
    })
}
