//! A server on loopback, and helpers that build the messages of workers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bytes::Bytes;
use flexor_ps::elasticdl::{Checkpoints, ElasticdlServer, Mode, Options, Parameters};
use flexor_ps::spec::Optimizer;
use flexor_wire::elasticdl as wire;
use flexor_wire::elasticdl::pserver_client::PserverClient;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;

pub(super) const ASYNC: Mode = Mode::Async { modulates_rate: false };

/// A running server with a client. The server stops when this is dropped.
pub(super) struct LoopbackServer {
    pub(super) client: PserverClient<Channel>,
    pub(super) server: ElasticdlServer,
    address: String,
    serving: JoinHandle<()>,
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl LoopbackServer {
    pub(super) async fn new(optimizer: Optimizer, mode: Mode) -> Self {
        Self::with(Parameters::new(Options { optimizer, mode, seed: 7 }).unwrap(), None).await
    }

    pub(super) async fn with(parameters: Parameters, checkpoints: Option<Checkpoints>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = ElasticdlServer::new(parameters, checkpoints);
        let routes = server.routes();
        let serving = tokio::spawn(async move {
            let serving = tonic::transport::Server::builder().add_routes(routes);
            serving.serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))).await.unwrap();
        });
        let address = format!("http://{address}");
        let client = PserverClient::connect(address.clone()).await.unwrap();
        Self { client, server, address, serving }
    }

    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    pub(super) async fn push_model(&mut self, model: wire::Model) -> Result<(), Status> {
        self.client.push_model(model).await.map(tonic::Response::into_inner)
    }

    pub(super) async fn push_infos(&mut self, infos: &[(&str, i64, &str)]) -> Result<(), Status> {
        let model = wire::Model { embedding_table_infos: infos.iter().map(info).collect(), ..Default::default() };
        self.client.push_embedding_table_infos(model).await.map(tonic::Response::into_inner)
    }

    pub(super) async fn pull_dense(&mut self, version: i32) -> wire::PullDenseParametersResponse {
        let request = wire::PullDenseParametersRequest { version };
        self.client.pull_dense_parameters(request).await.unwrap().into_inner()
    }

    /// The current values of one variable.
    pub(super) async fn variable(&mut self, name: &str) -> Vec<f32> {
        floats(&self.pull_dense(-1).await.dense_parameters[name])
    }

    pub(super) async fn rows(&mut self, name: &str, ids: &[i64]) -> Result<Vec<Vec<f32>>, Status> {
        let request = wire::PullEmbeddingVectorsRequest { name: name.to_owned(), ids: ids.to_vec() };
        let answer = self.client.pull_embedding_vectors(request).await?.into_inner();
        let sides: Vec<i64> = answer.tensor_shape.iter().flat_map(|shape| &shape.dim).map(|side| side.size).collect();
        assert_eq!(sides[0] as usize, ids.len());
        Ok(floats(&answer).chunks(sides[1] as usize).map(<[f32]>::to_vec).collect())
    }

    /// Pushes gradients. Returns whether they were accepted, and the server's version after that.
    pub(super) async fn push(&mut self, version: i32, gradients: wire::Model) -> Result<(bool, i32), Status> {
        self.push_at_rate(version, 0.0, gradients).await
    }

    pub(super) async fn push_at_rate(
        &mut self,
        version: i32,
        learning_rate: f32,
        gradients: wire::Model,
    ) -> Result<(bool, i32), Status> {
        let gradients = Some(wire::Model { version, ..gradients });
        let request = wire::PushGradientsRequest { gradients, learning_rate };
        let answer = self.client.push_gradients(request).await?.into_inner();
        Ok((answer.accepted, answer.version))
    }
}

pub(super) fn sync(grads_to_wait: u32, tolerance: u32) -> Mode {
    Mode::Sync { grads_to_wait: NonZeroU32::new(grads_to_wait).unwrap(), tolerance }
}

pub(super) fn tensor(sides: &[i64], values: &[f32]) -> wire::TensorProto {
    let content: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    raw_tensor(sides, &content)
}

pub(super) fn raw_tensor(sides: &[i64], content: &[u8]) -> wire::TensorProto {
    let dim = sides.iter().map(|size| wire::tensor_shape_proto::Dim { size: *size }).collect();
    let tensor_shape = Some(wire::TensorShapeProto { dim });
    wire::TensorProto { dtype: 1, tensor_shape, tensor_content: Bytes::copy_from_slice(content) }
}

pub(super) fn floats(tensor: &wire::TensorProto) -> Vec<f32> {
    tensor.tensor_content.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

pub(super) fn info((name, dim, initializer): &(&str, i64, &str)) -> wire::EmbeddingTableInfo {
    wire::EmbeddingTableInfo { name: (*name).to_owned(), dim: *dim, initializer: (*initializer).to_owned(), dtype: 1 }
}

pub(super) fn dense(name: &str, tensor: wire::TensorProto) -> wire::Model {
    wire::Model { dense_parameters: BTreeMap::from([(name.to_owned(), tensor)]), ..Default::default() }
}

pub(super) fn rows(name: &str, ids: &[i64], tensor: wire::TensorProto) -> wire::Model {
    let rows = wire::IndexedSlicesProto { concat_tensors: Some(tensor), ids: ids.to_vec() };
    wire::Model { embedding_tables: BTreeMap::from([(name.to_owned(), rows)]), ..Default::default() }
}
