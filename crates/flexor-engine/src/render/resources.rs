//! Resources of the main container: the template's, as plans changed them and as ends for want of memory grew them.

use flexor_model::Quantity;
use serde_json::Value;

use crate::controller::DesiredPod;

/// Has the main container request what is planned. A limit below its request is raised to it; a limit that the
/// template does not have is added only where the pod is to be limited, and for devices, of which Kubernetes wants both to
/// be equal.
pub(super) fn plan(container: &mut Value, desired: &DesiredPod) {
    let memory = desired.memory.max(desired.resources.memory()).map(|memory| ("memory", memory));
    for (name, quantity) in desired.resources.iter().filter(|(name, _)| *name != "memory").chain(memory) {
        let resources = &mut container["resources"];
        resources["requests"][name] = quantity.to_string().into();
        let limit = resources.get("limits").and_then(|limits| read(&limits[name]));
        let is_device = name.contains('/');
        if is_device || desired.is_limited || limit.is_some_and(|limit| limit < quantity) {
            resources["limits"][name] = quantity.to_string().into();
        }
    }
}

fn read(quantity: &Value) -> Option<Quantity> {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    text.parse().ok()
}
