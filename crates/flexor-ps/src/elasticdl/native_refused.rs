//! Our own service on the same port, which says why there is nothing to be had: no partition of such a server moves.

use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_server::ParameterServer;
use futures::stream::Empty;
use tonic::{Request, Response, Status, Streaming};

/// Answers everybody with the reason.
pub(super) struct NativeRefused;

fn refused(what: &str) -> Status {
    Status::failed_precondition(format!(
        "this server keeps what ElasticDL's workers send it (flexor ps --elasticdl), so {what}; to go on with other \
         servers, let it write a checkpoint and start them with --checkpoint-dir-for-init"
    ))
}

#[tonic::async_trait]
impl ParameterServer for NativeRefused {
    type WorkStream = Empty<Result<wire::Reply, Status>>;
    type CopyStream = Empty<Result<wire::FromCopy, Status>>;
    type SnapshotStream = Empty<Result<wire::SnapshotTaken, Status>>;

    async fn work(&self, _: Request<Streaming<wire::Request>>) -> Result<Response<Self::WorkStream>, Status> {
        Err(refused("native workers cannot train with it"))
    }

    async fn copy(&self, _: Request<Streaming<wire::FromOwner>>) -> Result<Response<Self::CopyStream>, Status> {
        Err(refused("nothing can be moved to it or from it while they train"))
    }

    async fn snapshot(&self, _: Request<wire::TakeSnapshot>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(refused("native workers cannot train with it, nor look at it"))
    }
}
