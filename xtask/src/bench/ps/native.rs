//! Our native API: a master, a server, and clients as workers have them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients, PullFor};
use flexor_ps::layout::TableId;
use flexor_ps::push::NonFinite;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

use super::case::Case;
use super::keys;
use super::measure::{Lane, Lanes};
use super::our_server::RunningServer;
use super::side::{Phase, Programs};
use crate::bench::our_master::{Disk, OurMaster};

const NEW: TableId = TableId(0);
const PRESENT: TableId = TableId(1);

/// A server with its master.
pub(super) struct Native {
    server: RunningServer,
    master: OurMaster,
    case: Case,
    /// Every push is a separate batch.
    pushed: Arc<AtomicU64>,
}

impl Native {
    pub(super) async fn start(programs: &Programs, case: &Case) -> Result<Self> {
        let master = OurMaster::start(&programs.flexor, 1, Disk::AsItIs)?;
        let mut command = programs.cores.command(&programs.flexor);
        command.args(["ps", "--master", master.grpc(), "--name", "ps-0", "--listen", "127.0.0.1:0"]);
        let server = RunningServer::start(&mut command, 0)?;
        let native = Self { server, master, case: *case, pushed: Arc::default() };
        // Once the first pull is answered the server has all partitions.
        let mut client = native.connect().await?;
        client.pull(&[(PRESENT, &[0])], PullFor::Evaluation, &mut Vec::new()).await?;
        Ok(native)
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn connect(&self) -> Result<Client> {
        let table = |name: &str, init| TableSpec { name: name.to_owned(), dim: self.case.dim, init };
        let (opt_type, opt_args) = self.case.optimizer.arguments();
        let spec = ModelSpec {
            variables: Vec::new(),
            tables: vec![table("new", Initializer::UNIFORM), table("present", Initializer::Zeros)],
            optimizer: Optimizer::from_elasticdl(opt_type, opt_args)?,
            seed: 1,
        };
        Client::connect(self.master.grpc(), None, spec).await.context("the client cannot connect")
    }

    pub(super) async fn lanes(&self, phase: Phase) -> Result<Lanes> {
        let Case { batch, clients, keys, .. } = self.case;
        let mut lanes = Lanes::new();
        for client in 0..clients {
            let (work, repeats, requests) = match phase {
                Phase::FirstTouch => (Operation::Pull(NEW), false, keys::new(batch, client, clients)),
                Phase::Fill => (Operation::Pull(PRESENT), false, keys::present(batch, client, clients)),
                Phase::Pull => (Operation::Pull(PRESENT), true, keys.requests(batch, client)),
                Phase::Push => (Operation::Push, true, keys.requests(batch, client)),
                Phase::PushAll => (Operation::Push, false, keys::present(batch, client, clients)),
            };
            let most = requests.iter().map(Vec::len).max().unwrap_or(0);
            let unsigned = |keys: Vec<i64>| keys.into_iter().map(i64::cast_unsigned).collect();
            lanes.push(Box::new(Worker {
                client: self.connect().await?,
                work,
                repeats,
                requests: requests.into_iter().map(unsigned).collect(),
                gradients: vec![0.01; most * self.case.dim as usize],
                dim: self.case.dim as usize,
                pulled: Vec::new(),
                pushed: Arc::clone(&self.pushed),
            }));
        }
        Ok(lanes)
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Pull(TableId),
    Push,
}

struct Worker {
    client: Client,
    work: Operation,
    repeats: bool,
    requests: Vec<Vec<u64>>,
    gradients: Vec<f32>,
    dim: usize,
    pulled: Vec<Vec<f32>>,
    pushed: Arc<AtomicU64>,
}

impl Lane for Worker {
    fn ask(&mut self, turn: usize) -> Pin<Box<dyn Future<Output = Result<Option<u64>>> + Send + '_>> {
        Box::pin(async move {
            let index = if self.repeats { turn % self.requests.len() } else { turn };
            let Some(keys) = self.requests.get(index) else { return Ok(None) };
            match self.work {
                Operation::Pull(table) => {
                    self.client.pull(&[(table, keys)], PullFor::Training, &mut self.pulled).await?;
                }
                Operation::Push => {
                    let first = self.pushed.fetch_add(1, Ordering::Relaxed);
                    let batch = BatchId { dataset: 0, epoch: 0, first, len: 1 };
                    let rows = [(PRESENT, &keys[..], &self.gradients[..keys.len() * self.dim])];
                    self.client
                        .push(&Gradients {
                            batch,
                            learning_rate: 0.0,
                            rows: &rows,
                            variables: &[],
                            rewind_epoch: None,
                            non_finite: NonFinite::Refuse,
                        })
                        .await?;
                }
            }
            Ok(Some(keys.len() as u64))
        })
    }
}
