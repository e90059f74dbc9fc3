//! Volumes that Flexor adds to pods on a cluster: the job's token, the files in which programs leave their errors, and
//! the master's state.
//!
//! On one machine these are plain paths, and nothing is mounted.

use flexor_model::{Program, Role};
use serde_json::{Value, json};

use super::{FlexorProgram, RenderContext, TokenPlace};

const TOKEN: &str = "flexor-token";
const TOKEN_FOLDER: &str = "/var/run/flexor/token";
/// The entry of the token's Secret.
pub(super) const TOKEN_KEY: &str = "token";

const ERRORS: &str = "flexor-errors";
const ERRORS_FOLDER: &str = "/var/run/flexor/errors";

const STATE: &str = "flexor-state";

/// The file with the job's token.
pub(super) fn token_file(token: &TokenPlace) -> String {
    match token {
        TokenPlace::File(file) => file.clone(),
        TokenPlace::Secret(_) => format!("{TOKEN_FOLDER}/{TOKEN_KEY}"),
    }
}

/// The file in which a program leaves its error for the pod's sidecar. Torch replaces this file, which it could not do
/// with the container's own termination message.
pub(super) fn error_file(container: &str) -> String {
    format!("{ERRORS_FOLDER}/{container}.json")
}

/// The folder in which torchrun keeps what its processes leave. The sidecar reads their errors there: torchrun passes
/// on none of them when the master ends the run.
pub(super) const PROCESS_LOGS: &str = ERRORS_FOLDER;

/// Adds the volumes to a pod, and mounts them where they are read and written.
pub(super) fn add(context: &RenderContext<'_>, role: &Role, spec: &mut Value) {
    let FlexorProgram::Image(_) = context.flexor else { return };
    if let Some(TokenPlace::Secret(secret)) = &context.token {
        // Containers of any user read it.
        push(spec, "volumes", json!({ "name": TOKEN, "secret": { "secretName": secret, "defaultMode": 0o444 } }));
        for container in all_containers(spec) {
            push(container, "volumeMounts", json!({ "name": TOKEN, "mountPath": TOKEN_FOLDER, "readOnly": true }));
        }
    }
    if role.has_sidecar() {
        // Without a limit: torchrun may be told to redirect logs, and these are here then.
        push(spec, "volumes", json!({ "name": ERRORS, "emptyDir": {} }));
        for container in all_containers(spec) {
            push(container, "volumeMounts", json!({ "name": ERRORS, "mountPath": ERRORS_FOLDER }));
        }
    }
    if role.program == Program::FlexorMaster {
        push(spec, "volumes", json!({ "name": STATE, "emptyDir": {} }));
        let main = &mut spec["containers"][role.template.main_index()];
        push(main, "volumeMounts", json!({ "name": STATE, "mountPath": context.master_state }));
    }
}

fn all_containers(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let fields = spec.as_object_mut().into_iter().flatten();
    let lists = fields.filter(|(field, _)| ["initContainers", "containers"].contains(&field.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

fn push(object: &mut Value, field: &str, element: Value) {
    match &mut object[field] {
        Value::Array(list) => list.push(element),
        nothing => *nothing = json!([element]),
    }
}
