//! Preflight checks: what keeps a job from running on this machine, found before anything is created.
//!
//! Only lasting obstacles are found here. A job waits for a ConfigMap that does not exist yet.

use std::path::Path;

use flexor_model::{Job, MOST_REPLICAS, Role};
use serde_json::Value;
use thiserror::Error;

use super::checkpoint_folder::{self, CheckpointFolderError};
use super::volumes::{self, VolumeError};

/// Why a job cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PreflightError {
    #[error("role {role}: {replicas} replicas are more than the {MOST_REPLICAS} that a role can have")]
    TooMany { role: String, replicas: u32 },
    /// On Kubernetes the image would say what to run.
    #[error(
        "role {role}: container {container} has no command; images are not looked at here, so write what it runs, such \
         as `command: [python, train.py]`"
    )]
    NoCommand { role: String, container: String },
    #[error("role {role}: container {container}: {source}")]
    Volume { role: String, container: String, source: VolumeError },
    #[error(transparent)]
    CheckpointFolder(#[from] CheckpointFolderError),
}

/// What this machine has in the way of a job whose programs run in `working_dir`.
pub fn of_machine(job: &Job, working_dir: &Path) -> Vec<PreflightError> {
    checkpoint_folder::check(job, working_dir).err().map(PreflightError::CheckpointFolder).into_iter().collect()
}

/// What the job's manifest has in the way.
pub fn of_manifest(job: &Job) -> Vec<PreflightError> {
    job.roles.iter().flat_map(of_role).collect()
}

/// Remarks for users about the volumes of a job that runs here.
pub fn remarks(job: &Job) -> Vec<String> {
    let namespace = job.namespace.as_ref().map_or("default", |namespace| namespace.as_str());
    let mut remarks: Vec<String> = Vec::new();
    for role in &job.roles {
        let spec = &role.template.json()["spec"];
        for (container, _) in containers(role).filter(|(_, is_rendered)| !is_rendered) {
            for mount in list(&container["volumeMounts"]) {
                let Some(volume) = list(&spec["volumes"]).iter().find(|volume| volume["name"] == mount["name"]) else {
                    continue;
                };
                if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                    remarks.push(format!(
                        "the claim {claim} is the folder claims/{namespace}/{claim} of the cluster; what is in it stays \
                         when the job is over"
                    ));
                }
                if !volume["emptyDir"]["sizeLimit"].is_null() {
                    let name = volume["name"].as_str().unwrap_or_default();
                    remarks.push(format!("volume {name}: sizeLimit has no effect here"));
                }
            }
        }
    }
    remarks.sort();
    remarks.dedup();
    remarks
}

fn of_role(role: &Role) -> Vec<PreflightError> {
    let spec = &role.template.json()["spec"];
    let mut found = Vec::new();
    let replicas = role.size.initial();
    if replicas > MOST_REPLICAS {
        found.push(PreflightError::TooMany { role: role.name.to_string(), replicas });
    }
    for (container, is_rendered) in containers(role) {
        if is_rendered {
            continue;
        }
        let (role, name) = (role.name.to_string(), container["name"].as_str().unwrap_or_default().to_owned());
        if list(&container["command"]).is_empty() {
            found.push(PreflightError::NoCommand { role: role.clone(), container: name.clone() });
        }
        let volume = |source| PreflightError::Volume { role: role.clone(), container: name.clone(), source };
        found.extend(volumes::preflight(container, spec).into_iter().map(volume));
    }
    found
}

/// The containers of a role's pods, and whether the renderer writes the container's command.
fn containers(role: &Role) -> impl Iterator<Item = (&Value, bool)> {
    let spec = &role.template.json()["spec"];
    let is_rendered = role.has_rendered_command();
    let mains = list(&spec["containers"]).iter().enumerate();
    let mains = mains.map(move |(index, container)| (container, is_rendered && index == role.template.main_index()));
    list(&spec["initContainers"]).iter().map(|container| (container, false)).chain(mains)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
