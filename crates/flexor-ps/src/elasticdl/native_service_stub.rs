//! The native service on the port of an ElasticDL server: it rejects every call with an explanation.

use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_server::ParameterServer;
use futures::stream::Empty;
use tonic::{Request, Response, Status, Streaming};

/// Rejects all native calls.
pub(super) struct NativeServiceStub;

fn refused(what: &str) -> Status {
    Status::failed_precondition(format!(
        "this server serves ElasticDL's workers (flexor ps --elasticdl), so {what}; to continue with other \
         servers, let it write a checkpoint and start them with --checkpoint-dir-for-init"
    ))
}

#[tonic::async_trait]
impl ParameterServer for NativeServiceStub {
    type WorkStream = Empty<Result<wire::Reply, Status>>;
    type ReplicateStream = Empty<Result<wire::FromBackup, Status>>;
    type SnapshotStream = Empty<Result<wire::SnapshotOpened, Status>>;

    async fn work(&self, _: Request<Streaming<wire::Request>>) -> Result<Response<Self::WorkStream>, Status> {
        Err(refused("native workers cannot train with it"))
    }

    async fn replicate(
        &self,
        _: Request<Streaming<wire::FromPrimary>>,
    ) -> Result<Response<Self::ReplicateStream>, Status> {
        Err(refused("no partition can move to it or from it"))
    }

    async fn snapshot(&self, _: Request<wire::OpenSnapshot>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(refused("native workers can neither train with it nor read it"))
    }
}
