//! A pod of the cluster: who it is, which its folder says, and what its parent says of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::controller::{PodPhase, PodSeen};
use flexor_engine::nodes::{Observed, ProgramExit};
use flexor_model::{NodeId, PortName, Rank, RoleName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::JobKey;
use crate::home::Home;
use crate::pods::status::{self, ContainerState, PodStatus};

/// A pod.
#[derive(Debug, Clone)]
pub struct PodRecord {
    /// Who it is.
    pub meta: PodMeta,
    /// What its parent last said.
    pub status: Option<PodStatus>,
    /// Its parent, while that is alive: the process and when it started.
    pub parent: Option<(i32, u64)>,
    /// Why nothing of it can run.
    pub trouble: Option<String>,
    /// The pod ends when this is closed.
    pub owner: Option<Arc<PipeWriter>>,
}

/// Who a pod is; written when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodMeta {
    /// Its unique id.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub job: JobKey,
    /// Its role.
    pub role: RoleName,
    /// The number in its name.
    pub id: NodeId,
    /// Its place in the role.
    pub rank: Rank,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its own address.
    pub address: Ipv4Addr,
    /// Where it listens, by the names of the ports.
    pub ports: BTreeMap<PortName, SocketAddr>,
    /// When it was made.
    pub created_at: Duration,
    /// Its main container.
    pub main: String,
    /// Since when it is to go.
    pub deleting_since: Option<Duration>,
}

impl PodRecord {
    /// Whether it is to go.
    pub fn is_deleting(&self) -> bool {
        self.meta.deleting_since.is_some()
    }

    /// How far it is.
    pub fn phase(&self) -> PodPhase {
        if self.trouble.is_some() {
            return PodPhase::Failed;
        }
        let phase = self.status.as_ref().map_or(status::PodPhase::Pending, |status| status.phase);
        match phase {
            status::PodPhase::Succeeded => PodPhase::Succeeded,
            status::PodPhase::Failed => PodPhase::Failed,
            // Whoever should have said how it ended was lost with it.
            _ if self.parent.is_none() => PodPhase::Failed,
            status::PodPhase::Pending => PodPhase::Pending,
            status::PodPhase::Running => PodPhase::Running,
        }
    }

    /// What the controller sees.
    pub(super) fn seen(&self) -> PodSeen {
        let main = self.status.iter().flat_map(|status| &status.containers).find(|one| one.name == self.meta.main);
        let mut end = Observed::default();
        let (mut started_at, mut finished_at) = (None, None);
        match main.map(|main| &main.state) {
            Some(ContainerState::Terminated { exit_code, reason, message, started_at: start, finished_at: finish }) => {
                end.exit = Some(ProgramExit::Code(*exit_code));
                end.container_reason = Some(reason.clone());
                end.error.clone_from(message);
                (started_at, finished_at) = (start.map(since_epoch), Some(since_epoch(*finish)));
            }
            Some(ContainerState::Running { started_at: start, .. }) => started_at = Some(since_epoch(*start)),
            Some(ContainerState::Waiting(_)) | None => {}
        }
        end.pod_reason = self.status.as_ref().and_then(|status| status.reason.clone());
        if let Some(trouble) = &self.trouble {
            end.container_reason = Some("CreateContainerError".to_owned());
            end.error = Some(trouble.clone());
        } else if self.phase() == PodPhase::Failed && end.exit.is_none() {
            end.pod_reason.get_or_insert_with(|| "NodeLost".to_owned());
        }
        PodSeen {
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
            role: self.meta.role.clone(),
            id: self.meta.id,
            rank: self.meta.rank,
            phase: self.phase(),
            deleting: self.is_deleting(),
            end,
            started_at,
            finished_at,
        }
    }

    /// Writes down who it is.
    pub(super) fn save(&self, home: &Home) -> io::Result<()> {
        let path = home.pod(&self.meta.uid).path().join("meta.json");
        let half = path.with_extension("half");
        fs::write(&half, serde_json::to_vec(&self.meta).map_err(io::Error::other)?)?;
        fs::rename(half, path)
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// All pods of a cluster that ran before. What was not made whole is removed.
pub(super) fn read_all(home: &Home) -> io::Result<Vec<PodRecord>> {
    let mut pods = Vec::new();
    for entry in fs::read_dir(home.pods())? {
        let entry = entry?;
        let uid = entry.file_name().to_string_lossy().into_owned();
        let folder = home.pod(&uid);
        match fs::read(folder.path().join("meta.json")) {
            Ok(bytes) => {
                let meta = serde_json::from_slice(&bytes).map_err(io::Error::other)?;
                // Where its parent never came to write anything there is nothing to take over.
                if folder.status()?.is_none() && folder.remove_unless_begun()? {
                    continue;
                }
                let status = folder.status()?;
                let parent =
                    status.as_ref().map(|status| status.parent).filter(|parent| crate::proc::is_alive(*parent));
                pods.push(PodRecord { meta, status, parent, trouble: None, owner: None });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => folder.remove()?,
            Err(error) => return Err(error),
        }
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(parent: Option<(i32, u64)>, phase: Option<status::PodPhase>, reason: Option<&str>) -> PodRecord {
        let of = |phase| PodStatus {
            uid: "u".to_owned(),
            parent: (1, 1),
            phase,
            reason: reason.map(str::to_owned),
            message: None,
            containers: Vec::new(),
        };
        let meta = PodMeta {
            uid: "u".to_owned(),
            name: "p".to_owned(),
            job: JobKey { namespace: "n".parse().unwrap(), name: "j".parse().unwrap() },
            role: "worker".parse().unwrap(),
            id: NodeId(0),
            rank: Rank(0),
            labels: BTreeMap::new(),
            address: Ipv4Addr::LOCALHOST,
            ports: BTreeMap::new(),
            created_at: Duration::ZERO,
            main: "main".to_owned(),
            deleting_since: None,
        };
        PodRecord { meta, status: phase.map(of), parent, trouble: None, owner: None }
    }

    #[test]
    fn a_pod_whose_parent_is_lost_has_failed_however_far_it_was() {
        use status::PodPhase::{Pending, Running, Succeeded};
        for phase in [None, Some(Pending), Some(Running)] {
            let seen = pod(None, phase, None).seen();
            assert_eq!((seen.phase, seen.end.pod_reason.as_deref()), (PodPhase::Failed, Some("NodeLost")), "{phase:?}");
            assert!(!pod(Some((1, 1)), phase, None).seen().has_ended());
        }
        assert_eq!(pod(None, Some(Succeeded), None).phase(), PodPhase::Succeeded);
    }

    #[test]
    fn a_pod_that_was_told_to_end_says_so_whatever_its_program_answered() {
        let seen = pod(None, Some(status::PodPhase::Failed), Some("NodeShutdown")).seen();
        assert_eq!(seen.end.pod_reason.as_deref(), Some("NodeShutdown"));
    }
}
