//! A job of ElasticDL: any number of servers, and a worker that places variables and rows.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use flexor_ps::elasticdl::{Checkpoints, LoadedCheckpoint, ModelShare, Options, Parameters};
use flexor_ps::legacy_placement::{server_of_row, server_of_variable};
use flexor_ps::spec::Optimizer;
use flexor_wire::elasticdl as wire;

use super::loopback_server::{ASYNC, LoopbackServer, info, tensor};

/// Names and sizes of variables; one has more than one slice.
const VARIABLES: [(&str, usize); 4] = [("dense/kernel:0", 12), ("dense/bias:0", 3), ("big:0", 70_000), ("out:0", 1)];
const TABLES: [(&str, i64, &str); 2] = [("users", 4, "uniform"), ("items", 3, "RandomNormal")];
const IDS: i64 = 40;

pub(super) fn options(optimizer: Optimizer) -> Options {
    Options { optimizer, mode: ASYNC, seed: 7 }
}

/// All values of a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobValues {
    pub(super) variables: BTreeMap<String, Vec<f32>>,
    pub(super) rows: BTreeMap<&'static str, Vec<Vec<f32>>>,
    pub(super) versions: Vec<i32>,
}

/// The servers of a job and its only worker.
pub(super) struct Job {
    pub(super) servers: Vec<LoopbackServer>,
    /// Selects the next gradients.
    step: i32,
    /// The version of all servers.
    version: i32,
}

impl Job {
    /// Starts new servers. `checkpoints` is directory, interval in steps, and number to keep.
    pub(super) async fn start(count: u32, optimizer: Optimizer, checkpoints: Option<(&Path, u32, usize)>) -> Self {
        let mut servers = Vec::new();
        for server in 0..count {
            let checkpoints = checkpoints.map(|(folder, every, keep)| {
                let every = NonZeroU32::new(every).unwrap();
                Checkpoints::new(folder, server, NonZeroU32::new(count).unwrap(), every, keep)
            });
            servers.push(LoopbackServer::with(Parameters::new(options(optimizer)).unwrap(), checkpoints).await);
        }
        let mut job = Self { servers, step: 0, version: 0 };
        job.push_model().await;
        job
    }

    /// Starts servers from a checkpoint. The worker pushes its model anyway, as after any restart.
    pub(super) async fn restore(count: u32, optimizer: Optimizer, from: &Path, step: i32) -> Self {
        let mut servers = Vec::new();
        for server in 0..count {
            let loaded = LoadedCheckpoint::read(from, Some(optimizer), 99).unwrap();
            assert_eq!(loaded.version(), step);
            let share = ModelShare::Server { server, servers: NonZeroU32::new(count).unwrap() };
            servers.push(LoopbackServer::with(loaded.into_parameters(options(optimizer), share).unwrap(), None).await);
        }
        let mut job = Self { servers, step, version: step };
        job.push_model().await;
        job
    }

    fn count(&self) -> NonZeroU32 {
        NonZeroU32::new(self.servers.len() as u32).unwrap()
    }

    async fn push_model(&mut self) {
        let count = self.count();
        for (number, server) in (0..).zip(&mut self.servers) {
            server.push_infos(&TABLES).await.unwrap();
            let own = VARIABLES.iter().filter(|(name, _)| server_of_variable(name, count) == number);
            let own = own.map(|(name, len)| ((*name).to_owned(), tensor(&[*len as i64], &noise(name, -1, *len))));
            let model = wire::Model { version: -1, dense_parameters: own.collect(), ..Default::default() };
            server.push_model(model).await.unwrap();
        }
    }

    /// Trains some steps. The gradients of a step are deterministic.
    pub(super) async fn train(&mut self, steps: i32) {
        for _ in 0..steps {
            for number in 0..self.count().get() {
                let gradients = self.gradients_for(number);
                let pushed = self.servers[number as usize].push(self.version, gradients).await.unwrap();
                assert_eq!(pushed, (true, self.version + 1));
            }
            self.step += 1;
            self.version += 1;
        }
        self.servers.iter().for_each(|server| server.server.finish_writing());
    }

    /// Trains with the gradients of steps from `step` on, independent of the servers' version.
    pub(super) async fn train_from(&mut self, step: i32, steps: i32) {
        self.step = step;
        self.train(steps).await;
    }

    fn gradients_for(&self, number: u32) -> wire::Model {
        let count = self.count();
        let own = VARIABLES.iter().filter(|(name, _)| server_of_variable(name, count) == number);
        let dense = own.map(|(name, len)| ((*name).to_owned(), tensor(&[*len as i64], &noise(name, self.step, *len))));
        let tables = TABLES.iter().filter_map(|(name, dim, _)| {
            let is_own = |id: &i64| (id + i64::from(self.step)) % 3 != 0 && server_of_row(*id, count) == number;
            let ids: Vec<i64> = (0..IDS).filter(is_own).collect();
            let row = |id: &i64| noise(name, self.step * 1000 + *id as i32, *dim as usize);
            let values: Vec<f32> = ids.iter().flat_map(row).collect();
            let concat_tensors = Some(tensor(&[ids.len() as i64, *dim], &values));
            (!ids.is_empty()).then(|| ((*name).to_owned(), wire::IndexedSlicesProto { concat_tensors, ids }))
        });
        wire::Model { dense_parameters: dense.collect(), embedding_tables: tables.collect(), ..Default::default() }
    }

    /// All values, pulled as the worker pulls them.
    pub(super) async fn values(&mut self) -> JobValues {
        let count = self.count();
        let mut values = JobValues { variables: BTreeMap::new(), rows: BTreeMap::new(), versions: Vec::new() };
        for server in &mut self.servers {
            let pulled = server.pull_dense(-1).await;
            values.versions.push(pulled.version);
            let floats =
                |(name, tensor): (&String, &wire::TensorProto)| (name.clone(), super::loopback_server::floats(tensor));
            values.variables.extend(pulled.dense_parameters.iter().map(floats));
        }
        values.versions.dedup();
        for (name, ..) in TABLES {
            let mut rows = Vec::new();
            for id in 0..IDS {
                let server = &mut self.servers[server_of_row(id, count) as usize];
                rows.extend(server.rows(name, &[id]).await.unwrap());
            }
            values.rows.insert(name, rows);
        }
        values
    }

    /// The model of each server, in the form that ElasticDL writes into files.
    pub(super) async fn models(&mut self) -> Vec<wire::Model> {
        let count = self.count();
        let mut models = Vec::new();
        for (number, server) in (0..).zip(&mut self.servers) {
            let pulled = server.pull_dense(-1).await;
            let mut model = wire::Model {
                version: pulled.version,
                embedding_table_infos: TABLES.iter().map(info).collect(),
                dense_parameters: pulled.dense_parameters,
                ..Default::default()
            };
            for (name, dim, _) in TABLES {
                let ids: Vec<i64> = (0..IDS).filter(|id| server_of_row(*id, count) == number).collect();
                let values = server.rows(name, &ids).await.unwrap().concat();
                let concat_tensors = Some(tensor(&[ids.len() as i64, dim], &values));
                model.embedding_tables.insert(name.to_owned(), wire::IndexedSlicesProto { concat_tensors, ids });
            }
            models.push(model);
        }
        models
    }
}

/// Deterministic numbers in [-1, 1) for a name and a seed.
fn noise(name: &str, seed: i32, len: usize) -> Vec<f32> {
    let mut state =
        name.bytes().fold(u64::from(seed.cast_unsigned()) + 1, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[tokio::test]
async fn the_trained_model_does_not_depend_on_the_number_of_servers() {
    let mut values = Vec::new();
    for count in [1, 2, 3, 5] {
        let mut job = Job::start(count, Optimizer::adam(0.01), None).await;
        job.train(6).await;
        values.push(job.values().await);
    }
    assert!(values.iter().all(|other| *other == values[0]));
    assert_eq!(values[0].versions, [6]);
}
