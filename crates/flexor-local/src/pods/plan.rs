//! What a pod's supervisor runs: containers whose commands, variables and folders are all literal.
//!
//! [`super::interpreter`] makes the plan from a rendered Pod. The pod's folder holds it as `pod.json`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPlan {
    pub name: String,
    pub uid: String,
    pub address: Ipv4Addr,
    /// Init containers, which run one after the other before all others. Sidecars among them stay running.
    pub init: Vec<ContainerPlan>,
    pub containers: Vec<ContainerPlan>,
    pub restart: RestartPolicy,
    /// How long the pod may take to end.
    pub grace: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPlan {
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// All variables. Nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub folder: PathBuf,
    #[serde(default)]
    pub mounts: Vec<MountPlan>,
    /// The memory limit of its processes together, in bytes.
    pub memory: Option<u64>,
    /// It runs beside the containers and is restarted whenever it ends.
    #[serde(default)]
    pub sidecar: bool,
    /// How many of the supervisor's sockets it inherits. Containers take them in order.
    #[serde(default)]
    pub sockets: usize,
}

/// Whether containers that end are restarted in place, as on Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    Never,
    OnFailure,
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MountPlan {
    pub at: PathBuf,
    pub volume: VolumePlan,
    /// The part of the volume that is mounted, if not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<PathBuf>,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumePlan {
    /// A folder of the pod by the volume's name. It starts empty and is removed with the pod.
    Empty(String),
    /// A folder of the pod with files in it.
    Files { volume: String, files: Vec<FilePlan> },
    /// A folder of the state directory that outlives the pod and its job.
    Claim(PathBuf),
    /// A path of this machine.
    Host { path: PathBuf, is: HostPathType },
}

/// A file of a volume.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlan {
    /// Relative to the volume.
    pub path: PathBuf,
    pub mode: u32,
    /// In base64.
    pub content: String,
}

/// What a host path must be, in the words of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostPathType {
    Any,
    DirectoryOrCreate,
    Directory,
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}

/// Leaves the content out, which may be secret.
impl fmt::Debug for FilePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePlan").field("path", &self.path).field("mode", &self.mode).finish_non_exhaustive()
    }
}
