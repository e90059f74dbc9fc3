//! A server of another version may answer a push with an outcome that this client does not know. Then the client must not
//! take the part for applied, nor for one to push again.

use std::net::SocketAddr;
use std::time::Duration;

use flexor_client::Jitter;
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, ClientError, Gradients};
use flexor_ps::dial::{Dialer, Stream};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_server::{ParameterServer, ParameterServerServer};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use crate::cluster::{Cluster, counting_model};

/// Answers every push with this outcome of one part.
struct Fake {
    outcome: i32,
}

#[tonic::async_trait]
impl ParameterServer for Fake {
    type WorkStream = BoxStream<'static, Result<wire::Reply, Status>>;
    type ReplicateStream = BoxStream<'static, Result<wire::FromBackup, Status>>;
    type SnapshotStream = BoxStream<'static, Result<wire::SnapshotOpened, Status>>;

    async fn work(&self, requests: Request<Streaming<wire::Request>>) -> Result<Response<Self::WorkStream>, Status> {
        let outcome = self.outcome;
        let replies = requests.into_inner().map(move |request| {
            let part = wire::PushedPart { partition: 0, outcome, version: 1, generation: 1 };
            let pushed = wire::Pushed { parts: vec![part] };
            Ok(wire::Reply { id: request?.id, result: Some(wire::reply::Result::Pushed(pushed)) })
        });
        Ok(Response::new(replies.boxed()))
    }

    async fn replicate(
        &self,
        _: Request<Streaming<wire::FromPrimary>>,
    ) -> Result<Response<Self::ReplicateStream>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn snapshot(&self, _: Request<wire::OpenSnapshot>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("not called"))
    }
}

async fn serve(outcome: i32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ParameterServerServer::new(Fake { outcome });
    let serving = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

#[tokio::test]
async fn a_push_with_an_unknown_outcome_fails() {
    let mut cluster = Cluster::start(1);
    cluster.add("ps-0");
    for outcome in [wire::pushed_part::Outcome::Unspecified as i32, 99] {
        let (master, fake) = (cluster.master(), serve(outcome).await);
        let dialer = Dialer::new(Jitter::Random, move |to| {
            let to = if to == master { to.to_owned() } else { fake.to_string() };
            Box::pin(async move { Ok(Box::new(TcpStream::connect(to).await?) as Box<dyn Stream>) })
        });
        let mut client = Client::with_dialer(&cluster.master(), None, counting_model(), dialer).await.unwrap();
        let (keys, gradients) = ([1], [-1.0; 4]);
        let push = Gradients {
            batch: BatchId { dataset: 1, epoch: 0, first: 0, len: 1 },
            learning_rate: 0.0,
            rewind_epoch: None,
            non_finite: NonFinite::Refuse,
            rows: &[(TableId(0), &keys, &gradients)],
            variables: &[],
        };
        let pushed = tokio::time::timeout(Duration::from_secs(60), client.push(&push)).await;
        match pushed.expect("the push ends") {
            Err(ClientError::InvalidReply(why)) => assert!(why.contains("unknown outcome"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(client.take_acknowledged().is_empty());
    }
}
