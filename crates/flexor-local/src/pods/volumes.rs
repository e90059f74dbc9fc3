//! The volumes of a pod: which folder or file each container finds at which path.
//!
//! Everything is decided here. The pod's supervisor creates the folders and files when it starts a container.
//! [`super::preflight`] refuses jobs with unsupported volumes before anything runs.

mod files;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use flexor_model::expansion::expand;
use serde_json::Value;
use thiserror::Error;

use self::files::Origin;
use super::environment::ValueSources;
use super::plan::{HostPathType, MountPlan, VolumePlan};

/// Advice for volumes that need a network file system.
const NETWORK: &str = "mount it on this machine and write hostPath";

/// Why a container cannot have its volumes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeError {
    /// The object, or a key of it, does not exist yet. The pod waits for it.
    #[error("volume {volume} refers to {what}, which does not exist")]
    Missing { volume: String, what: String },
    /// The volume cannot exist on this machine.
    #[error("volume {volume}: {problem}")]
    Impossible {
        volume: String,
        /// Says what to write instead.
        problem: String,
    },
}

pub struct VolumeContext<'a> {
    /// The pod's spec.
    pub spec: &'a Value,
    pub sources: &'a dyn ValueSources,
    /// The folder behind a PersistentVolumeClaim.
    pub claim: &'a dyn Fn(&str) -> PathBuf,
}

/// The mounts of a container, given its variables.
///
/// # Errors
///
/// A volume refers to something that does not exist, or cannot exist on this machine.
pub fn of_container(
    container: &Value,
    env: &BTreeMap<String, String>,
    context: &VolumeContext<'_>,
) -> Result<Vec<MountPlan>, VolumeError> {
    list(&container["volumeMounts"]).iter().map(|mount| one(mount, env, context)).collect()
}

/// One error for each mount that no object could make possible.
pub fn preflight(container: &Value, spec: &Value) -> Vec<VolumeError> {
    let mounts = list(&container["volumeMounts"]);
    let mut found: Vec<VolumeError> = mounts.iter().filter_map(|mount| check(mount, spec).err()).collect();
    for (index, mount) in mounts.iter().enumerate() {
        let at = &mount["mountPath"];
        if mounts[..index].iter().any(|other| other["mountPath"] == *at) {
            found.push(impossible(mount, format!("mountPath {} is taken by another volume", text(at))));
        }
    }
    found
}

fn one(mount: &Value, env: &BTreeMap<String, String>, context: &VolumeContext<'_>) -> Result<MountPlan, VolumeError> {
    let (volume, kind) = check(mount, context.spec)?;
    let (name, source) = (text(&volume["name"]), &volume[kind]);
    let mut read_only = mount["readOnly"] == true;
    let plan = match kind {
        "hostPath" => VolumePlan::Host { path: text(&source["path"]).into(), is: host_path_type(volume)? },
        "persistentVolumeClaim" => {
            read_only |= source["readOnly"] == true;
            VolumePlan::Claim((context.claim)(text(&source["claimName"])))
        }
        "configMap" | "secret" | "downwardAPI" | "projected" => {
            // As on Kubernetes, which ignores the mount's own `readOnly` here.
            read_only = true;
            let origin = Origin { volume: name, spec: context.spec, sources: context.sources };
            VolumePlan::Files { volume: name.to_owned(), files: origin.files(kind, source)? }
        }
        _ => VolumePlan::Empty(name.to_owned()),
    };
    let sub_path = match (mount["subPath"].as_str(), mount["subPathExpr"].as_str()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(pattern)) => expand(pattern, |name| env.get(name).map(String::as_str))
            .map_err(|error| impossible(mount, format!("subPathExpr {error}")))?,
        (None, None) => String::new(),
    };
    if !is_inside(&sub_path) {
        return Err(impossible(mount, format!("subPath {sub_path} must lead into the volume")));
    }
    let sub_path = (!sub_path.is_empty()).then(|| sub_path.into());
    Ok(MountPlan { at: text(&mount["mountPath"]).into(), volume: plan, sub_path, read_only })
}

/// The volume that a mount names, with its kind, if this machine supports both.
fn check<'a>(mount: &Value, spec: &'a Value) -> Result<(&'a Value, &'a str), VolumeError> {
    let at = Path::new(text(&mount["mountPath"]));
    let goes_back = at.components().any(|part| part == Component::ParentDir);
    if !at.is_absolute() || goes_back || at == Path::new("/") || at.starts_with("/proc") {
        let problem = format!("mountPath {} must be a full path, and neither / nor in /proc", at.display());
        return Err(impossible(mount, problem));
    }
    if !is_inside(text(&mount["subPath"])) {
        return Err(impossible(mount, format!("subPath {} must lead into the volume", text(&mount["subPath"]))));
    }
    let named = |volume: &&Value| volume["name"] == mount["name"];
    let Some(volume) = list(&spec["volumes"]).iter().find(named) else {
        let known: Vec<&str> = list(&spec["volumes"]).iter().map(|volume| text(&volume["name"])).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(impossible(mount, format!("is mounted and not declared; declared are: {known}")));
    };
    if text(&volume["name"]).parse::<flexor_model::DnsLabel>().is_err() {
        return Err(impossible(mount, "is no name; write lower-case letters, digits and `-`".to_owned()));
    }
    let kind = volume.as_object().into_iter().flatten().find(|(key, value)| *key != "name" && !value.is_null());
    // As on Kubernetes.
    let kind = kind.map_or("emptyDir", |(kind, _)| kind.as_str());
    let source = &volume[kind];
    let problem = match kind {
        "emptyDir" if matches!(text(&source["medium"]), "" | "Memory") => return Ok((volume, kind)),
        "emptyDir" => format!("emptyDir.medium {} is not supported here; leave it out", text(&source["medium"])),
        "hostPath" if !Path::new(text(&source["path"])).is_absolute() || text(&source["path"]).contains("..") => {
            format!("hostPath.path {} must be a full path without `..`", text(&source["path"]))
        }
        "hostPath" => return host_path_type(volume).map(|_| (volume, kind)),
        "configMap" | "secret" | "downwardAPI" | "projected" => {
            return files::check(text(&volume["name"]), kind, source).map(|()| (volume, kind));
        }
        "persistentVolumeClaim" if text(&source["claimName"]).parse::<flexor_model::ObjectName>().is_ok() => {
            return Ok((volume, kind));
        }
        "persistentVolumeClaim" => format!("claimName {} is no name of a claim", text(&source["claimName"])),
        "ephemeral" => "ephemeral volumes are not supported here; write emptyDir".to_owned(),
        "image" => "images are not looked at here; write hostPath with a folder that has its files".to_owned(),
        other => format!("{other} volumes are not supported here; {NETWORK}"),
    };
    Err(impossible(mount, problem))
}

fn host_path_type(volume: &Value) -> Result<HostPathType, VolumeError> {
    Ok(match text(&volume["hostPath"]["type"]) {
        "" => HostPathType::Any,
        "DirectoryOrCreate" => HostPathType::DirectoryOrCreate,
        "Directory" => HostPathType::Directory,
        "FileOrCreate" => HostPathType::FileOrCreate,
        "File" => HostPathType::File,
        "Socket" => HostPathType::Socket,
        "CharDevice" => HostPathType::CharDevice,
        "BlockDevice" => HostPathType::BlockDevice,
        other => {
            let problem = format!("hostPath.type {other} is none; write Directory, DirectoryOrCreate or File, say");
            return Err(impossible(volume, problem));
        }
    })
}

/// Whether a path leads from a folder into that folder.
fn is_inside(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Both volumes and their mounts have the name.
fn impossible(named: &Value, problem: String) -> VolumeError {
    VolumeError::Impossible { volume: text(&named["name"]).to_owned(), problem }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
