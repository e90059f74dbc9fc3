//! What a pod's parent runs: containers with commands, variables and folders that need nothing more filled in.

use std::collections::BTreeMap;
use std::fmt;
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
    /// What it finds at other paths than this machine has it.
    #[serde(default)]
    pub mounts: Vec<MountPlan>,
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

/// Something that a container finds at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MountPlan {
    /// Where.
    pub at: PathBuf,
    /// What.
    pub volume: VolumePlan,
    /// What of it, where that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<PathBuf>,
    /// It cannot be written there.
    pub read_only: bool,
}

/// A file or folder that containers can find at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumePlan {
    /// A folder of the pod, empty at first and gone with it, by the name of the volume.
    Empty(String),
    /// A folder of the pod with files in it.
    Files {
        /// The name of the volume.
        volume: String,
        /// The files.
        files: Vec<FilePlan>,
    },
    /// A folder of the cluster that outlives the pod and its job.
    Claim(PathBuf),
    /// Something of this machine.
    Host {
        /// Where it is.
        path: PathBuf,
        /// What it has to be.
        is: HostPathType,
    },
}

/// A file of a volume.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlan {
    /// Where it is in the volume.
    pub path: PathBuf,
    /// Who may read and write it.
    pub mode: u32,
    /// What is in it, in base64.
    pub content: String,
}

/// What a path of this machine has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostPathType {
    /// Anything.
    Any,
    /// A folder; made if it is missing.
    DirectoryOrCreate,
    /// A folder.
    Directory,
    /// A file; made if it is missing.
    FileOrCreate,
    /// A file.
    File,
    /// A socket.
    Socket,
    /// A device of bytes.
    CharDevice,
    /// A device of blocks.
    BlockDevice,
}

/// What is in it may be secret.
impl fmt::Debug for FilePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePlan").field("path", &self.path).field("mode", &self.mode).finish_non_exhaustive()
    }
}
