//! The load on ElasticDL's wire protocol, the same for both servers: requests as bytes, answers counted and discarded.

mod connection;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use flexor_wire::elasticdl as wire;
use flexor_wire::elasticdl::pserver_client::PserverClient;
use tonic::transport::Endpoint;

use self::connection::{Connection, framed};
use super::case::Case;
use super::keys;
use super::measure::{Lane, Lanes};
use super::our_server::RunningServer;
use super::side::Phase;

/// Rows that are drawn when they are first asked for.
const NEW: &str = "new/embeddings:0";
/// Rows that pulls and pushes go to.
const PRESENT: &str = "present/embeddings:0";
const PULL: &str = "/proto.Pserver/pull_embedding_vectors";
const PUSH: &str = "/proto.Pserver/push_gradients";
/// How often a server is asked whether it serves, every 25 ms.
const TRIES: u32 = 200;

/// A server and its clients.
pub(super) struct WireLoad {
    server: RunningServer,
    case: Case,
}

impl WireLoad {
    /// Waits until the server serves, and creates the tables.
    pub(super) async fn new(server: RunningServer, case: &Case) -> Result<Self> {
        let load = Self { server, case: *case };
        let info = |name: &str, initializer: &str| wire::EmbeddingTableInfo {
            name: name.to_owned(),
            dim: case.dim.into(),
            initializer: initializer.to_owned(),
            dtype: 1,
        };
        let infos = vec![info(NEW, "uniform"), info(PRESENT, "zeros")];
        let model = wire::Model { embedding_table_infos: infos, ..Default::default() };
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", load.server.port()))?;
        let mut tries = 0;
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) if tries == TRIES => return Err(error).context("the server does not serve"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        };
        let mut client = PserverClient::new(channel);
        client.push_embedding_table_infos(model.clone()).await?;
        client.push_model(model).await?;
        Ok(load)
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(super) async fn lanes(&self, phase: Phase) -> Result<Lanes> {
        let Case { batch, clients, keys, .. } = self.case;
        let mut lanes = Lanes::new();
        for client in 0..clients {
            let (path, repeats, requests) = match phase {
                Phase::FirstTouch => (PULL, false, pulls(NEW, keys::new(batch, client, clients))),
                Phase::Fill => (PULL, false, pulls(PRESENT, keys::present(batch, client, clients))),
                Phase::Pull => (PULL, true, pulls(PRESENT, keys.requests(batch, client))),
                Phase::Push => (PUSH, true, self.pushes(keys.requests(batch, client))),
                Phase::PushAll => (PUSH, false, self.pushes(keys::present(batch, client, clients))),
            };
            let connection = Connection::open(self.server.port(), path).await?;
            // A pull is answered with the rows, a push with two numbers.
            let row_bytes = if path == PULL { 4 * self.case.dim as usize } else { 0 };
            lanes.push(Box::new(Client { connection, row_bytes, repeats, requests }));
        }
        Ok(lanes)
    }

    fn pushes(&self, requests: Vec<Vec<i64>>) -> Vec<(u64, Bytes)> {
        let one = |ids: Vec<i64>| {
            let (rows, dim) = (ids.len(), self.case.dim as usize);
            let content: Vec<u8> = std::iter::repeat_n(0.01_f32.to_le_bytes(), rows * dim).flatten().collect();
            let sides = [rows, dim].map(|size| wire::tensor_shape_proto::Dim { size: size as i64 });
            let tensor = wire::TensorProto {
                dtype: 1,
                tensor_shape: Some(wire::TensorShapeProto { dim: sides.to_vec() }),
                tensor_content: content.into(),
            };
            let gradients = wire::IndexedSlicesProto { concat_tensors: Some(tensor), ids };
            let gradients =
                wire::Model { embedding_tables: [(PRESENT.to_owned(), gradients)].into(), ..Default::default() };
            let request = wire::PushGradientsRequest { gradients: Some(gradients), learning_rate: 0.0 };
            (rows as u64, framed(&request))
        };
        requests.into_iter().map(one).collect()
    }
}

fn pulls(table: &str, requests: Vec<Vec<i64>>) -> Vec<(u64, Bytes)> {
    let one = |ids: Vec<i64>| {
        let rows = ids.len() as u64;
        (rows, framed(&wire::PullEmbeddingVectorsRequest { name: table.to_owned(), ids }))
    };
    requests.into_iter().map(one).collect()
}

/// One connection with one request under way.
struct Client {
    connection: Connection,
    /// How many bytes the answer has at least, for each row.
    row_bytes: usize,
    repeats: bool,
    requests: Vec<(u64, Bytes)>,
}

impl Lane for Client {
    fn ask(&mut self, turn: usize) -> Pin<Box<dyn Future<Output = Result<Option<u64>>> + Send + '_>> {
        Box::pin(async move {
            let index = if self.repeats { turn % self.requests.len() } else { turn };
            let Some((rows, request)) = self.requests.get(index).cloned() else { return Ok(None) };
            self.connection.ask(request, rows as usize * self.row_bytes).await?;
            Ok(Some(rows))
        })
    }
}
