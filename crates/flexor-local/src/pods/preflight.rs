//! What keeps a job from running on this machine, found in its templates before anything is started.
//!
//! Only what no object and no file can change later stands here; a ConfigMap that is not there yet is waited for.

use std::path::Path;

use flexor_model::{Job, MOST_REPLICAS, Program, Role};
use serde_json::Value;
use thiserror::Error;

use super::checkpoint_folder::{self, NoFolder};
use super::volumes::{self, VolumeError};

/// Why a job cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PreflightError {
    /// It is larger than anything that is run.
    #[error("role {role}: {replicas} replicas are more than the {MOST_REPLICAS} that a role can have")]
    TooMany {
        /// The role.
        role: String,
        /// How many it asks for.
        replicas: u32,
    },
    /// Nothing here can do what jobs of this kind need.
    #[error("{what} cannot be run yet; {instead}")]
    NotServed {
        /// What.
        what: String,
        /// What can.
        instead: &'static str,
    },
    /// A container says nothing about what to run, which on Kubernetes its image would.
    #[error(
        "role {role}: container {container} has no command; images are not looked at here, so write what it runs, such \
         as `command: [python, train.py]`"
    )]
    NoCommand {
        /// The role.
        role: String,
        /// The container.
        container: String,
    },
    /// A container cannot have a volume.
    #[error("role {role}: container {container}: {source}")]
    Volume {
        /// The role.
        role: String,
        /// The container.
        container: String,
        /// Why not.
        source: VolumeError,
    },
    /// Checkpoints cannot be written.
    #[error(transparent)]
    NoFolder(#[from] NoFolder),
}

/// What this machine has in the way of a job whose programs run in this folder.
pub fn here(job: &Job, folder: &Path) -> Vec<PreflightError> {
    checkpoint_folder::look(job, folder).err().map(PreflightError::NoFolder).into_iter().collect()
}

/// All obstacles to a job that are in its manifest.
pub fn to(job: &Job) -> Vec<PreflightError> {
    let unserved = not_served(job);
    if !unserved.is_empty() {
        return unserved;
    }
    job.roles.iter().flat_map(to_role).collect()
}

/// What users should know about the volumes of a job that runs here.
pub fn remarks(job: &Job) -> Vec<String> {
    let namespace = job.namespace.as_ref().map_or("default", |namespace| namespace.as_str());
    let mut remarks: Vec<String> = Vec::new();
    for role in &job.roles {
        let spec = &role.template.json()["spec"];
        for (container, _) in containers(role).filter(|(_, is_ours)| !is_ours) {
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

fn not_served(job: &Job) -> Vec<PreflightError> {
    const INSTEAD: &str = "jobs of DLRover and of TorchElastic can";
    let kind = flexor_dialects::dialect(&job.dialect).and_then(|dialect| dialect.missing_on_laptop);
    let what = kind.map(str::to_owned).or_else(|| {
        let serves = |role: &&Role| role.program == Program::FlexorPs;
        job.roles.iter().find(serves).map(|role| format!("role {}: a parameter server of ElasticDL", role.name))
    });
    what.map(|what| PreflightError::NotServed { what, instead: INSTEAD }).into_iter().collect()
}

fn to_role(role: &Role) -> Vec<PreflightError> {
    let spec = &role.template.json()["spec"];
    let mut found = Vec::new();
    let replicas = role.size.initial();
    if replicas > MOST_REPLICAS {
        found.push(PreflightError::TooMany { role: role.name.to_string(), replicas });
    }
    for (container, is_ours) in containers(role) {
        if is_ours {
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

/// The containers of a role's pods, and whether it is a program of ours that runs in them whatever they say.
fn containers(role: &Role) -> impl Iterator<Item = (&Value, bool)> {
    let spec = &role.template.json()["spec"];
    let runs_ours = role.program == Program::FlexorMaster;
    let mains = list(&spec["containers"]).iter().enumerate();
    let mains = mains.map(move |(index, container)| (container, runs_ours && index == role.template.main_index()));
    list(&spec["initContainers"]).iter().map(|container| (container, false)).chain(mains)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
