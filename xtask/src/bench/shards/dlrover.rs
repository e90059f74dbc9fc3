//! The same workers at DLRover's master: tasks of as many records, one held by each at any time.
//!
//! Its dataset is the cheapest for it: a table whose shards are shuffled, not its records.

use std::sync::Arc;

use anyhow::Result;
use flexor_testbed::Dlrover;

use crate::bench::dlrover_master::{DlroverClient, DlroverMaster, Pickles, TaskId};
use crate::bench::load::{self, Lane, Load, OUTSTANDING};
use crate::bench::sessions::NODES_PER_CONNECTION;

/// One run against a new master.
pub(super) async fn run(dlrover: &Dlrover, workers: usize) -> Result<Load> {
    let pickles = Arc::new(Pickles::make(dlrover, workers)?);
    let master = DlroverMaster::start(dlrover, workers)?;
    let mut clients = Vec::new();
    for _ in 0..workers.div_ceil(NODES_PER_CONNECTION) {
        clients.push(master.connect().await?);
    }
    clients[0].report(0, &pickles.dataset).await?;
    let mut lanes = Vec::new();
    for lane in 0..OUTSTANDING {
        let client = clients[lane % clients.len()].clone();
        lanes.push(Workers { client, workers: Vec::new(), pickles: Arc::clone(&pickles) });
    }
    for number in 0..workers {
        let lane = &mut lanes[number % OUTSTANDING];
        let task = lane.task(number).await?;
        lane.workers.push((number, task));
    }
    load::drive(lanes, master.pid()).await
}

struct Workers {
    client: DlroverClient,
    /// With the task that each holds.
    workers: Vec<(usize, TaskId)>,
    pickles: Arc<Pickles>,
}

impl Workers {
    async fn task(&mut self, worker: usize) -> Result<TaskId> {
        TaskId::of(&self.client.get(worker, &self.pickles.task).await?)
    }
}

impl Lane for Workers {
    async fn ask(&mut self, turn: usize) -> Result<()> {
        let at = turn % self.workers.len();
        let (worker, done) = self.workers[at];
        self.client.report(worker, &self.pickles.result_of(done)?).await?;
        self.workers[at].1 = self.task(worker).await?;
        Ok(())
    }
}
