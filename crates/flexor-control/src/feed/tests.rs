use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_wire::Token;
use flexor_wire::master::v1::control_server::{Control, ControlServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::*;

type Proposals = mpsc::Sender<Result<wire::Proposal, Status>>;

/// A stream that the feed opened.
struct OpenStream {
    observed: Streaming<wire::Observed>,
    proposals: Proposals,
}

impl OpenStream {
    async fn propose(&self, reports: u64) {
        self.proposals.send(Ok(wire::Proposal { reports, ..wire::Proposal::default() })).await.unwrap();
    }

    /// The next observation: expected nodes and received reports.
    async fn next(&mut self) -> (Option<u32>, u64) {
        let next = tokio::time::timeout(Duration::from_secs(20), self.observed.message()).await;
        let observed = next.expect("an observation comes in time").unwrap().unwrap();
        (observed.expected, observed.received_reports)
    }
}

/// A master that passes every stream on to the test.
struct FakeMaster(mpsc::Sender<OpenStream>);

#[tonic::async_trait]
impl Control for FakeMaster {
    type FeedStream = Pin<Box<dyn Stream<Item = Result<wire::Proposal, Status>> + Send>>;

    async fn feed(&self, request: Request<Streaming<wire::Observed>>) -> Result<Response<Self::FeedStream>, Status> {
        let (proposals, receiver) = mpsc::channel(4);
        let stream = OpenStream { observed: request.into_inner(), proposals };
        self.0.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver).map(|proposal| proposal))))
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

/// Starts a master. Returns its address and the streams that are opened.
async fn start_master() -> (String, mpsc::Receiver<OpenStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, streams) = mpsc::channel(4);
    let serving = tonic::transport::Server::builder().add_service(ControlServer::new(FakeMaster(sender)));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, streams)
}

async fn opened(streams: &mut mpsc::Receiver<OpenStream>) -> OpenStream {
    tokio::time::timeout(Duration::from_secs(20), streams.recv()).await.expect("a stream is opened in time").unwrap()
}

fn expected(nodes: u32) -> wire::Observed {
    wire::Observed { expected: Some(nodes), ..wire::Observed::default() }
}

#[tokio::test]
async fn received_reports_are_acknowledged_once_and_after_they_were_passed_on() {
    let (address, mut streams) = start_master().await;
    let passed_on = Arc::new(Mutex::new(Vec::new()));
    let known = passed_on.clone();
    let feed = MasterFeed::open(Upstream::new(&address, None::<Token>).unwrap(), move |message| {
        if let FeedMessage::Proposal(proposal) = message {
            known.lock().unwrap().push(proposal.reports);
        }
    });
    let mut stream = opened(&mut streams).await;
    assert_eq!(stream.next().await, (None, 0), "a stream begins with everything that is observed");
    stream.propose(0).await;
    stream.propose(2).await;
    assert_eq!(stream.next().await, (None, 2), "a proposal without reports is not answered");
    assert_eq!(*passed_on.lock().unwrap(), [0, 2]);
    stream.propose(2).await;
    stream.propose(5).await;
    assert_eq!(stream.next().await, (None, 5), "the same number is not acknowledged again");
    assert_eq!(*passed_on.lock().unwrap(), [0, 2, 2, 5]);
    feed.send(expected(3));
    assert_eq!(stream.next().await, (Some(3), 5), "later observations repeat the number");
}

#[tokio::test]
async fn a_new_stream_acknowledges_what_it_has_brought_itself() {
    let (address, mut streams) = start_master().await;
    let feed = MasterFeed::open(Upstream::new(&address, None::<Token>).unwrap(), |_| {});
    let mut stream = opened(&mut streams).await;
    assert_eq!(stream.next().await, (None, 0));
    stream.propose(7).await;
    assert_eq!(stream.next().await, (None, 7));
    drop(stream);
    feed.send(expected(3));
    // Another master counts from the beginning.
    let mut stream = opened(&mut streams).await;
    assert_eq!(stream.next().await, (Some(3), 0));
    stream.propose(1).await;
    assert_eq!(stream.next().await, (Some(3), 1));
}
