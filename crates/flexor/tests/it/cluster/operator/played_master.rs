//! A job's master that a test plays: it takes the operator's feed, and proposes what the test says.
//!
//! No containers run on fake nodes. The test answers at the addresses that their pods have in the cluster's network.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use flexor_testbed::Cluster;
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::control_server::{Control, ControlServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::cluster::installed::succeed;

const DEADLINE: Duration = Duration::from_secs(120);
/// The addresses of all pods of fake nodes.
const PODS: &str = "10.244.0.0/16";

/// The masters of all jobs; the tests with one have one job.
pub struct PlayedMaster {
    streams: mpsc::Receiver<OpenStream>,
    stream: Option<OpenStream>,
    task: JoinHandle<()>,
}

/// A feed that the operator has opened.
struct OpenStream {
    observed: Streaming<wire::Observed>,
    proposals: mpsc::Sender<Result<wire::Proposal, Status>>,
}

struct Feeds(mpsc::Sender<OpenStream>);

#[tonic::async_trait]
impl Control for Feeds {
    type FeedStream = Pin<Box<dyn Stream<Item = Result<wire::Proposal, Status>> + Send>>;

    async fn feed(&self, request: Request<Streaming<wire::Observed>>) -> Result<Response<Self::FeedStream>, Status> {
        let (proposals, receiver) = mpsc::channel(4);
        let stream = OpenStream { observed: request.into_inner(), proposals };
        self.0.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn set_expected(&self, _: Request<wire::SetExpectedRequest>) -> Result<Response<wire::Done>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn node_gone(&self, _: Request<wire::NodeGoneRequest>) -> Result<Response<wire::Done>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn retry(&self, _: Request<wire::RetryRequest>) -> Result<Response<wire::Done>, Status> {
        Err(Status::unimplemented("not called"))
    }
}

impl PlayedMaster {
    /// Serves those that carry the token, at the port of masters on the addresses of all pods.
    pub fn start(cluster: &Cluster, token: Token) -> Self {
        succeed(cluster.command_in("ip").args(["route", "add", "local", PODS, "dev", "lo"]));
        let address = (Ipv4Addr::UNSPECIFIED, flexor_model::ports::MASTER).into();
        let listener = TcpListenerStream::new(cluster.listen(address).unwrap());
        let (sender, streams) = mpsc::channel(4);
        let service = ControlServer::with_interceptor(Feeds(sender), move |call| token.check(call));
        let serving = tonic::transport::Server::builder().add_service(service).serve_with_incoming(listener);
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { streams, stream: None, task }
    }

    /// Waits for the next feed that the operator opens.
    pub async fn await_feed(&mut self) {
        let opened = tokio::time::timeout(DEADLINE, self.streams.recv()).await;
        self.stream = Some(opened.expect("the operator opens a feed in time").unwrap());
    }

    pub async fn propose(&self, kind: wire::proposal::Kind) {
        let proposal = wire::Proposal { generation: 1, kind: Some(kind), ..wire::Proposal::default() };
        self.stream.as_ref().expect("a feed is open").proposals.send(Ok(proposal)).await.unwrap();
    }

    /// Waits until the operator shows the job's sizes like this.
    pub async fn await_sizing(&mut self, what: &str, is_so: impl Fn(&wire::Sizing) -> bool) -> wire::Sizing {
        let observed = &mut self.stream.as_mut().expect("a feed is open").observed;
        let mut last = None;
        let found = tokio::time::timeout(DEADLINE, async {
            loop {
                let next = observed.message().await.unwrap().expect("the feed stays open");
                if let Some(sizing) = next.sizing.as_ref().filter(|sizing| is_so(sizing)) {
                    return sizing.clone();
                }
                last = Some(next);
            }
        });
        found.await.unwrap_or_else(|_| panic!("waited for {what}; last came {last:#?}"))
    }
}

impl Drop for PlayedMaster {
    fn drop(&mut self) {
        self.task.abort();
    }
}
