//! The arguments that a dialect puts in front of the template's own.

use flexor_model::{ArgRule, Role};
use serde_json::Value;

use super::{RenderContext, environment};
use crate::controller::DesiredPod;

/// The arguments of the main containers of a role.
pub(super) fn of_role(context: &RenderContext<'_>, role: &Role, desired: &DesiredPod) -> Vec<Value> {
    let identity = environment::pod_identity(context, role, desired);
    let rendered = role.leading_args.iter().map(|rule| match rule {
        ArgRule::Literal(text) => text.clone(),
        ArgRule::Text(pattern) => pattern.fill(&identity),
    });
    rendered.map(|text| environment::literal(text).into()).collect()
}

/// Puts arguments in front of a container's own. One with a command and no arguments gets them behind its command, as
/// Kubernetes has it.
pub(super) fn prepend(container: &mut Value, mut arguments: Vec<Value>) {
    if arguments.is_empty() {
        return;
    }
    arguments.extend(container["args"].as_array().cloned().unwrap_or_default());
    container["args"] = arguments.into();
}
