//! DLRover's local master as the measured peer, and its calls.
//!
//! The load drives it as its own agents do, by gRPC calls that carry pickles. DLRover's own classes make these pickles
//! before the measurement, so that the load generator costs as little as for ours. DLRover's master keeps no journal.

mod pickles;

use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flexor_testbed::Dlrover;
use flexor_testbed::torchrun::free_port;
use tempfile::TempDir;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

pub(super) use self::pickles::{Pickles, TaskId};

/// Its name in results.
pub(super) const NAME: &str = "DLRover 0.6.1 master";

/// Its imports alone take seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

const GET: PathAndQuery = PathAndQuery::from_static("/elastic.Master/get");
const REPORT: PathAndQuery = PathAndQuery::from_static("/elastic.Master/report");

/// A running master.
#[derive(Debug)]
pub(super) struct DlroverMaster {
    child: Child,
    port: u16,
    folder: TempDir,
}

/// The message of both directions of its calls.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(int32, tag = "1")]
    node_id: i32,
    #[prost(string, tag = "2")]
    node_type: String,
    /// A pickle.
    #[prost(bytes = "bytes", tag = "3")]
    data: bytes::Bytes,
}

/// The answer to a report.
#[derive(Clone, PartialEq, prost::Message)]
struct Response {
    #[prost(bool, tag = "1")]
    success: bool,
    #[prost(string, tag = "2")]
    reason: String,
}

impl DlroverMaster {
    /// Starts it and waits until it serves.
    pub(super) fn start(dlrover: &Dlrover, nodes: usize) -> Result<DlroverMaster> {
        let folder = tempfile::tempdir().context("cannot make a folder for DLRover's log")?;
        let log = File::create(folder.path().join("log")).context("cannot create the log of DLRover")?;
        let port = free_port()?;
        let child = dlrover
            .command()
            .args(["-m", "dlrover.python.master.main", "--platform", "local", "--job_name", "race"])
            .args(["--port", &port.to_string(), "--node_num", &nodes.to_string()])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start DLRover's master")?;
        let mut master = DlroverMaster { child, port, folder };
        let started = Instant::now();
        // It does not report when it serves, so the only way is to try.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = master.child.try_wait()?;
            if ended.is_some() || started.elapsed() > START_LIMIT {
                let log = fs::read_to_string(master.folder.path().join("log")).unwrap_or_default();
                bail!("DLRover's master does not serve: {}", log.lines().last().unwrap_or("it said nothing"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(master)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `HOST:PORT` for agents.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// How much it has logged.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        Ok(fs::metadata(self.folder.path().join("log"))?.len())
    }

    /// A connection to it.
    pub(super) async fn connect(&self) -> Result<DlroverClient> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address()))?.tcp_nodelay(true);
        let channel = endpoint.connect().await.context("cannot connect to DLRover's master")?;
        Ok(DlroverClient { grpc: tonic::client::Grpc::new(channel) })
    }
}

impl Drop for DlroverMaster {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A caller of the master.
#[derive(Clone)]
pub(super) struct DlroverClient {
    grpc: tonic::client::Grpc<Channel>,
}

impl DlroverClient {
    /// Sends a query; returns the pickled answer.
    pub(super) async fn get(&mut self, node: usize, pickle: &bytes::Bytes) -> Result<bytes::Bytes> {
        self.grpc.ready().await?;
        let codec = ProstCodec::<Envelope, Envelope>::default();
        let answer = self.grpc.unary(envelope(node, pickle)?, GET, codec).await?;
        Ok(answer.into_inner().data)
    }

    /// Sends a report that must be accepted.
    pub(super) async fn report(&mut self, node: usize, pickle: &bytes::Bytes) -> Result<()> {
        self.grpc.ready().await?;
        let codec = ProstCodec::<Envelope, Response>::default();
        let answer = self.grpc.unary(envelope(node, pickle)?, REPORT, codec).await?.into_inner();
        ensure!(answer.success, "DLRover's master refused a report of node {node}: {}", answer.reason);
        Ok(())
    }
}

fn envelope(node: usize, pickle: &bytes::Bytes) -> Result<tonic::Request<Envelope>> {
    let (node_id, node_type, data) = (i32::try_from(node)?, "worker".to_owned(), pickle.clone());
    Ok(tonic::Request::new(Envelope { node_id, node_type, data }))
}
