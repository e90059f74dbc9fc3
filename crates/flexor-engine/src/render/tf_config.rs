//! `TF_CONFIG`: where the tasks of a TensorFlow cluster are, and which of them a pod is.

use flexor_model::{Rank, Role, RoleKind};
use serde_json::{Map, Value, json};

use super::RenderContext;
use crate::controller::DesiredPod;

/// TensorFlow's cluster description for one pod: a list of addresses for each task type, by rank. Nothing where an
/// address is not known: a list with a gap would give tasks the numbers of others.
pub(super) fn render(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Option<String> {
    let mut cluster = Map::new();
    for known in &context.job.roles {
        let Some(task) = task_type(known.kind) else { continue };
        let target = desired.replicas.get(&known.name).copied().unwrap_or(0);
        // A pod that is to leave, or comes before its role has grown, is a task of its cluster all the same.
        let count = if known.name == role.name { target.max(desired.rank.0 + 1) } else { target };
        let addresses: Option<Vec<String>> =
            (0..count).map(|rank| context.addresses.of_replica(known, Rank(rank))).collect();
        let addresses = addresses?;
        if !addresses.is_empty() {
            cluster.insert(task.to_owned(), addresses.into());
        }
    }
    let task = json!({ "type": task_type(role.kind)?, "index": desired.rank.0 });
    Some(json!({ "cluster": Value::Object(cluster), "task": task }).to_string())
}

/// What TensorFlow calls a role.
fn task_type(kind: RoleKind) -> Option<&'static str> {
    match kind {
        RoleKind::ParameterServer => Some("ps"),
        RoleKind::Chief => Some("chief"),
        RoleKind::Worker => Some("worker"),
        RoleKind::Evaluator => Some("evaluator"),
        RoleKind::Master | RoleKind::Other => None,
    }
}
