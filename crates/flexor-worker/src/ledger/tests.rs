use std::time::Duration;

use flexor_wire::master::v1::master_server::{Master, MasterServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::*;

/// A master that never answers; the token is checked before.
struct SilentMaster;

#[tonic::async_trait]
impl Master for SilentMaster {
    type SessionStream = tokio_stream::Pending<Result<wire::Reply, Status>>;

    async fn call(&self, _: Request<wire::Request>) -> Result<Response<wire::Reply>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn session(&self, _: Request<Streaming<wire::Request>>) -> Result<Response<Self::SessionStream>, Status> {
        Ok(Response::new(tokio_stream::pending()))
    }
}

#[tokio::test]
async fn a_worker_with_a_wrong_token_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let token = Token::parse("the-job's").unwrap();
    let guarded = MasterServer::with_interceptor(SilentMaster, move |request| token.check(request));
    let serving = Server::builder().add_service(guarded).serve_with_incoming(TcpListenerStream::new(listener));
    let serving = tokio::spawn(serving);

    let worker = WorkerName { name: "worker-0".to_owned(), incarnation: 1 };
    let ledger = LedgerClient::open(&address, Token::parse("another").ok(), worker).unwrap();
    for _ in 0..2 {
        let requests = ledger.register(wire::Dataset::default());
        let refused =
            tokio::time::timeout(Duration::from_secs(30), requests).await.expect("refused in time").unwrap_err();
        assert!(matches!(&refused, LedgerError::Declined(why) if why.contains("FLEXOR_TOKEN_FILE")), "{refused}");
    }
    serving.abort();
}
