//! The gRPC service. It forwards calls to [`Parameters`] and starts checkpoints.

use std::sync::Arc;

use flexor_wire::elasticdl as wire;
use flexor_wire::elasticdl::pserver_server::{Pserver, PserverServer};
use flexor_wire::ps::v1::parameter_server_server::ParameterServerServer;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::checkpoints::Checkpoints;
use super::native_service_stub::NativeServiceStub;
use super::parameters::Parameters;

/// The message limit in both directions, as configured in ElasticDL's workers.
pub const MAX_MESSAGE: usize = 256 << 20;

/// A server for ElasticDL's workers. Clones share one state.
#[derive(Clone)]
pub struct ElasticdlServer {
    parameters: Arc<Parameters>,
    checkpoints: Option<Arc<Checkpoints>>,
}

impl ElasticdlServer {
    /// Serves these parameters, and writes checkpoints if configured.
    pub fn new(parameters: Parameters, checkpoints: Option<Checkpoints>) -> Self {
        Self { parameters: Arc::new(parameters), checkpoints: checkpoints.map(Arc::new) }
    }

    /// The routes. Calls carry no token: ElasticDL's workers have none.
    pub fn routes(&self) -> Routes {
        let service = PserverServer::new(self.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Routes::new(service).add_service(ParameterServerServer::new(NativeServiceStub))
    }

    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// Blocks until the checkpoint in progress is written.
    pub fn finish_writing(&self) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.finish();
        }
    }
}

#[tonic::async_trait]
impl Pserver for ElasticdlServer {
    async fn push_model(&self, request: Request<wire::Model>) -> Result<Response<()>, Status> {
        Ok(Response::new(self.parameters.push_model(request.get_ref())?))
    }

    async fn push_embedding_table_infos(&self, request: Request<wire::Model>) -> Result<Response<()>, Status> {
        Ok(Response::new(self.parameters.push_table_infos(request.get_ref())?))
    }

    async fn pull_dense_parameters(
        &self,
        request: Request<wire::PullDenseParametersRequest>,
    ) -> Result<Response<wire::PullDenseParametersResponse>, Status> {
        Ok(Response::new(self.parameters.pull_dense(request.get_ref().version)?))
    }

    async fn pull_embedding_vectors(
        &self,
        request: Request<wire::PullEmbeddingVectorsRequest>,
    ) -> Result<Response<wire::TensorProto>, Status> {
        let wire::PullEmbeddingVectorsRequest { name, ids } = request.get_ref();
        Ok(Response::new(self.parameters.pull_rows(name, ids)?))
    }

    async fn push_gradients(
        &self,
        request: Request<wire::PushGradientsRequest>,
    ) -> Result<Response<wire::PushGradientsResponse>, Status> {
        let outcome = self.parameters.push_gradients(request.get_ref())?;
        if let Some(checkpoints) =
            self.checkpoints.as_ref().filter(|of| outcome.made_version && of.is_due(outcome.version))
        {
            // Captured before the worker is answered, so its next push is not included.
            checkpoints.begin(&self.parameters, outcome.version);
        }
        Ok(Response::new(wire::PushGradientsResponse { accepted: outcome.accepted, version: outcome.version }))
    }
}
