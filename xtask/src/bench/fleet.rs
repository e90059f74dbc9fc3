//! A master with its parameter servers, all in processes, and a stand-in for the cluster's controller.
//!
//! The stand-in starts and ends servers and feeds the master their target number. It reads from the published partition
//! map, as clients do, when a change is complete.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_client::ControlClient;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::our_master::{Disk, OurMaster};

/// How long a change may take.
const PATIENCE: Duration = Duration::from_secs(120);
const MAX_MESSAGE: usize = 16 << 20;

/// A master and its servers; ended with their guard.
pub(super) struct Fleet {
    program: PathBuf,
    master: OurMaster,
    servers: Vec<ServerProcess>,
    feed: mpsc::Sender<wire::Observed>,
    map: watch::Receiver<wire::PartitionMap>,
    /// The longest time that a partition was frozen during a handover, in seconds.
    longest_freeze: watch::Receiver<f64>,
    _tasks: JoinSet<()>,
}

/// One server.
struct ServerProcess {
    name: String,
    process: Child,
    is_leaving: bool,
}

impl Fleet {
    /// Starts a master and this many servers, called `ps-0` and so on. A checkpoint folder, if given, stays empty until
    /// a caller asks for a checkpoint.
    pub(super) async fn start(program: &Path, servers: usize, checkpoints: Option<&Path>) -> Result<Self> {
        let mut more: Vec<&OsStr> = Vec::new();
        if let Some(folder) = checkpoints {
            let never = ["--checkpoint-every", "1000000", "--checkpoint-keep", "1", "--checkpoint-folder"];
            more.extend(never.map(OsStr::new));
            more.push(folder.as_os_str());
        }
        let master = OurMaster::start_with(program, 1, Disk::AsItIs, &more)?;
        let channel = Channel::from_shared(format!("http://{}", master.grpc()))?.connect().await?;
        let (feed, observed) = mpsc::channel(4);
        let mut tasks = JoinSet::new();
        let mut control = ControlClient::new(channel.clone());
        let (freezes, longest_freeze) = watch::channel(0.0_f64);
        tasks.spawn(async move {
            if let Ok(proposals) = control.feed(ReceiverStream::new(observed)).await {
                let mut proposals = proposals.into_inner();
                while let Ok(Some(next)) = proposals.message().await {
                    if let Some(wire::proposal::Kind::Training(status)) = next.kind {
                        let servers = status.servers.into_iter().flat_map(|servers| servers.servers);
                        let freeze = servers.filter_map(|server| server.longest_freeze_seconds).fold(0.0, f64::max);
                        freezes.send_modify(|longest| *longest = longest.max(freeze));
                    }
                }
            }
        });
        let (maps, map) = watch::channel(wire::PartitionMap::default());
        let mut follower = PsMembershipClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        tasks.spawn(async move {
            if let Ok(stream) = follower.watch_partition_map(wire::WatchPartitionMapRequest {}).await {
                let mut stream = stream.into_inner();
                while let Ok(Some(next)) = stream.message().await {
                    maps.send_replace(next);
                }
            }
        });
        let program = program.to_owned();
        let mut fleet = Self { program, master, servers: Vec::new(), feed, map, longest_freeze, _tasks: tasks };
        for number in 0..servers {
            fleet.launch(&format!("ps-{number}"))?;
        }
        fleet.send_observed().await?;
        Ok(fleet)
    }

    /// `HOST:PORT` of the master.
    pub(super) fn master(&self) -> &str {
        self.master.grpc()
    }

    pub(super) fn master_pid(&self) -> u32 {
        self.master.pid()
    }

    pub(super) fn server_pids(&self) -> Vec<u32> {
        self.servers.iter().map(|server| server.process.id()).collect()
    }

    /// Starts one more server.
    pub(super) async fn add(&mut self, name: &str) -> Result<()> {
        self.launch(name)?;
        self.send_observed().await
    }

    /// Asks a server to give away its partitions.
    pub(super) async fn let_leave(&mut self, name: &str) -> Result<()> {
        self.servers.iter_mut().filter(|server| server.name == name).for_each(|server| server.is_leaving = true);
        self.send_observed().await
    }

    /// Starts a server that replaces another one.
    pub(super) async fn replace(&mut self, old: &str, new: &str) -> Result<()> {
        self.launch(new)?;
        self.let_leave(old).await
    }

    /// Waits until the remaining servers share all partitions evenly.
    pub(super) async fn settled(&mut self) -> Result<()> {
        let stay: Vec<&str> =
            self.servers.iter().filter(|server| !server.is_leaving).map(|server| server.name.as_str()).collect();
        let is_so = |map: &wire::PartitionMap| are_spread(map, &stay);
        let settled = tokio::time::timeout(PATIENCE, self.map.wait_for(is_so)).await;
        settled.with_context(|| format!("{PATIENCE:?} were not enough for the servers to come to rest"))??;
        Ok(())
    }

    /// The number of the map.
    pub(super) fn epoch(&self) -> u64 {
        self.map.borrow().epoch
    }

    /// The longest time that a partition was frozen during a handover, in seconds; servers report it once a second.
    pub(super) fn longest_freeze(&self) -> f64 {
        *self.longest_freeze.borrow()
    }

    /// Ends the servers that have left.
    pub(super) async fn dismiss(&mut self) -> Result<()> {
        self.servers.retain(|server| !server.is_leaving);
        self.send_observed().await
    }

    fn launch(&mut self, name: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["ps", "--master", self.master.grpc(), "--name", name, "--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        self.servers.push(ServerProcess { name: name.to_owned(), process, is_leaving: false });
        Ok(())
    }

    /// Sends the full observed state, as a controller does after each change.
    async fn send_observed(&self) -> Result<()> {
        let pod = |server: &ServerProcess| wire::Pod {
            name: server.name.clone(),
            uid: server.process.id().to_string(),
            role: "ps".to_owned(),
            phase: "Running".to_owned(),
            leaving: server.is_leaving,
            ..wire::Pod::default()
        };
        let expected = self.servers.iter().filter(|server| !server.is_leaving).count() as u32;
        let observed = wire::Observed {
            servers: self.servers.iter().map(pod).collect(),
            expected_servers: Some(expected),
            ..wire::Observed::default()
        };
        self.feed.send(observed).await.context("the master does not listen any more")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// Whether these servers have all partitions, and none has two more than another.
fn are_spread(map: &wire::PartitionMap, servers: &[&str]) -> bool {
    let mut has = vec![0_usize; servers.len()];
    for replicas in &map.partitions {
        let primary = replicas.primary.and_then(|index| map.servers.get(index as usize));
        let Some(index) = primary.and_then(|primary| servers.iter().position(|name| *name == primary.name)) else {
            return false;
        };
        has[index] += 1;
    }
    let (least, most) = (has.iter().min().copied().unwrap_or(0), has.iter().max().copied().unwrap_or(0));
    least > 0 && most - least <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(primaries: &[u32]) -> wire::PartitionMap {
        let server = |name: &str| wire::Server { name: name.to_owned(), ..wire::Server::default() };
        let replicas =
            |primary: &u32| wire::PartitionReplicas { primary: Some(*primary), ..wire::PartitionReplicas::default() };
        let (servers, partitions) = (["a", "b", "c"].map(server).to_vec(), primaries.iter().map(replicas).collect());
        wire::PartitionMap { servers, partitions, ..wire::PartitionMap::default() }
    }

    #[test]
    fn a_change_is_done_when_the_remaining_servers_share_all_partitions() {
        assert!(are_spread(&map(&[0, 1, 0]), &["a", "b"]));
        assert!(!are_spread(&map(&[0, 2, 1]), &["a", "b"]), "one that leaves has something");
        assert!(!are_spread(&map(&[0, 0, 0, 1]), &["a", "b"]), "one has two more than the other");
        assert!(!are_spread(&map(&[]), &["a"]), "there is no map yet");
    }
}
