//! What a pod's parent runs: containers with commands, variables and folders that need nothing more filled in.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A pod to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPlan {
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Run one after the other before anything else; those that are sidecars are started and kept.
    pub init: Vec<ContainerPlan>,
    /// Run together.
    pub containers: Vec<ContainerPlan>,
    /// Whether containers that end are started again.
    pub restart: RestartPolicy,
    /// How long the pod may take to end.
    pub grace: Duration,
}

/// A container to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPlan {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// All its variables.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// The bytes of memory that it and its children may have together.
    pub memory: Option<u64>,
    /// It runs beside the containers and is started again whenever it ends.
    #[serde(default)]
    pub sidecar: bool,
    /// How many of the sockets that the parent was given are its own, from the first that is nobody's yet.
    #[serde(default)]
    pub sockets: usize,
}

/// Whether containers that end are started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// Never; the controller decides.
    Never,
    /// When they fail.
    OnFailure,
    /// Always.
    Always,
}
