//! One random history, determined by its seed.
//!
//! While workers train, servers, master and workers are killed, disconnected, added and drained. Then the faults end,
//! and the system must settle with the right model.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::ledger::{DatasetSpec, Order, StepSpec, WorkerId};
use flexor_master::Checkpoints;
use flexor_ps::client::PullFor;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::dice::Dice;
use super::model::{self, ModelValues, keys_of};
use super::network::{Name, Network};
use super::workers::{DATASET, PushLog, Worker, pull, report_lost};
use super::world::{MASTER, World, running};

/// The time limit for settling after the faults.
const LIMIT: Duration = Duration::from_secs(120);
/// The time after a fault of a server before a careful history loses another one.
const CALM: Duration = Duration::from_secs(4);
const MOST_SERVERS: usize = 4;

/// How servers of a job with two replicas are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storm {
    /// Each after redundancy is restored.
    Patient,
    /// Without waiting for redundancy.
    Impatient,
    /// The same, and workers are killed too.
    WithWorkers,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    seed: u64,
    replication_factor: u32,
    /// Servers are only lost while every partition has two replicas in sync. Then no update may be lost.
    is_careful: bool,
    /// The only faults are killed servers, and perhaps workers. Each is replaced at once.
    storm: Option<Storm>,
    /// Batches per step in synchronous training.
    steps: Option<u64>,
    checkpoints: Option<Duration>,
    workers: u64,
    epochs: u32,
    batches: u64,
    faults: u64,
}

impl Scenario {
    pub(crate) fn of(seed: u64, dice: &Dice) -> Self {
        let replication_factor = 1 + dice.roll(3).min(1) as u32;
        let is_careful = replication_factor == 2 && !dice.once_in(3);
        let steps = dice.once_in(3).then(|| 1 + dice.roll(4));
        let checkpoints = (!dice.once_in(3)).then(|| Duration::from_millis(1000 + dice.roll(5000)));
        let (workers, epochs, batches) = (1 + dice.roll(3), 1 + dice.roll(2) as u32, 15 + dice.roll(45));
        Self {
            seed,
            replication_factor,
            is_careful,
            storm: None,
            steps,
            checkpoints,
            workers,
            epochs,
            batches,
            faults: 3 + dice.roll(11),
        }
    }

    pub(crate) fn storm(seed: u64, storm: Storm, dice: &Dice) -> Self {
        let checkpoints = dice.once_in(2).then(|| Duration::from_millis(1000 + dice.roll(3000)));
        Self {
            seed,
            replication_factor: 2,
            is_careful: storm == Storm::Patient,
            storm: Some(storm),
            steps: None,
            checkpoints,
            workers: if seed.is_multiple_of(2) { 1 } else { 1 + dice.roll(3) },
            epochs: 2,
            batches: 60,
            faults: 6,
        }
    }
}

pub(crate) struct History {
    scenario: Scenario,
    dice: Dice,
    world: World,
    keys: Arc<Vec<u64>>,
    pushed: Arc<Mutex<PushLog>>,
    /// The values before each step in synchronous training.
    steps: Option<Arc<Vec<ModelValues>>>,
    workers: BTreeMap<Name, (WorkerId, JoinHandle<()>)>,
    last_worker: u64,
    last_server: u64,
    down: Vec<Name>,
    /// The time of the last fault of a server.
    last_fault: Instant,
    log: EventLog,
    /// Deletes the checkpoints when the history is dropped.
    _folder: TempDir,
}

/// The events of a history, printed if it fails.
struct EventLog {
    scenario: Scenario,
    begun: Instant,
    lines: Vec<String>,
}

impl EventLog {
    fn record(&mut self, event: impl std::fmt::Display) {
        let line = format!("{:>9.3} s  {event}", self.begun.elapsed().as_secs_f64());
        if std::env::var_os("FLEXOR_SIMULATION_LOG").is_some() {
            eprintln!("{line}");
        }
        self.lines.push(line);
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.scenario.seed;
            eprintln!("seed {seed} failed: {:?}\n{}", self.scenario, self.lines.join("\n"));
            eprintln!("{}", flexor_seeds::replay_line(seed));
        }
    }
}

impl History {
    pub(crate) async fn begin(seed: u64) -> Self {
        let dice = Dice::new(seed);
        Self::of(Scenario::of(seed, &dice), dice).await
    }

    /// A history in which servers are killed, perhaps workers, and nothing else.
    pub(crate) async fn storm(seed: u64, storm: Storm) -> Self {
        let dice = Dice::new(seed);
        Self::of(Scenario::storm(seed, storm, &dice), dice).await
    }

    async fn of(scenario: Scenario, dice: Dice) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = scenario.checkpoints.map(|every| {
            let folder = folder.path().join("checkpoints").display().to_string();
            Checkpoints { folder, every, keep: 2 }
        });
        let world = World::begin(Network::new(dice.split()), scenario.replication_factor, checkpoints).await;
        let log = EventLog { scenario: scenario.clone(), begun: Instant::now(), lines: Vec::new() };
        let keys = Arc::new(model::keys());
        let sequential =
            |batches_per_step| Arc::new(model::sequential(&keys, scenario.epochs, scenario.batches, batches_per_step));
        let mut history = Self {
            steps: scenario.steps.map(sequential),
            scenario,
            dice,
            world,
            keys,
            pushed: Arc::default(),
            workers: BTreeMap::new(),
            last_worker: 0,
            last_server: 0,
            down: Vec::new(),
            last_fault: Instant::now(),
            log,
            _folder: folder,
        };
        history.register().await;
        let servers = 1 + history.dice.roll(3).max(u64::from(history.scenario.storm.is_some()));
        (0..servers).for_each(|_| history.add_server());
        history.world.report_desired();
        (0..history.scenario.workers).for_each(|_| history.add_worker());
        history
    }

    /// Plays the history and checks the result.
    pub(crate) async fn play(mut self) {
        for _ in 0..self.scenario.faults {
            tokio::time::sleep(self.dice.within(Duration::from_millis(1500))).await;
            self.inject_fault().await;
        }
        self.end_faults().await;
        if tokio::time::timeout(LIMIT, self.settle()).await.is_err() {
            let begun = self.pushed.lock().begun.len();
            panic!("the system does not settle: {}; {begun} batches were pushed", self.world.describe());
        }
        self.log.record("all batches are trained, and no partition moves");
        tokio::time::timeout(LIMIT, self.check()).await.expect("the model can be read");
    }

    async fn register(&self) {
        let steps = self.scenario.steps.and_then(NonZeroU64::new).map(|batches| StepSpec { batches, ahead: 0 });
        let spec = DatasetSpec::new(DATASET, self.scenario.batches, 1).unwrap();
        let spec = spec.with_epochs(Some(self.scenario.epochs)).with_order(Order::Sequential).with_steps(steps);
        let job = running(&mut self.world.job()).await;
        job.data().register(spec).await.unwrap();
    }

    async fn inject_fault(&mut self) {
        if let Some(storm) = self.scenario.storm {
            if storm == Storm::WithWorkers {
                self.crash_worker();
            }
            return self.kill_some_server().await;
        }
        let names: Vec<Name> = self.world.servers.keys().cloned().collect();
        let some = self.dice.pick(&names);
        match (self.dice.roll(16), some) {
            (0..=1, _) if names.len() < MOST_SERVERS => {
                self.add_server();
                self.world.report_desired();
            }
            (2..=3, Some(name)) => self.leave(&name),
            (4..=6, Some(name)) if self.may_lose() => self.kill_server(&name),
            (7..=8, _) => {
                if let Some(wire) = self.world.network.cut_one() {
                    self.log.record(format!("cut {wire}"));
                }
            }
            (9..=11, _) => self.disconnect(),
            (12, _) => self.restart_master().await,
            (13, _) => self.crash_worker(),
            (14..=15, _) => {
                if let Some(name) = self.down.pop() {
                    self.start_server(&name);
                    self.world.report_desired();
                }
            }
            _ => {}
        }
        self.release();
    }

    fn add_server(&mut self) {
        let name = Name::from(format!("ps-{}", self.last_server));
        self.last_server += 1;
        self.start_server(&name);
    }

    fn start_server(&mut self, name: &Name) {
        self.world.start_server(name);
        self.log.record(format!("{} starts", self.world.servers[name].address));
    }

    fn kill_server(&mut self, name: &Name) {
        let silently = self.dice.once_in(3);
        self.log.record(format!("{name} is killed{}", if silently { " silently" } else { "" }));
        self.world.kill_server(name, silently);
        self.last_fault = Instant::now();
        match self.dice.roll(3) {
            0 => self.start_server(name),
            1 => {
                self.down.push(name.clone());
                // The controller observes the loss.
                self.world.report_desired();
            }
            _ => self.down.push(name.clone()),
        }
    }

    /// Kills a server and replaces it. A careful history first waits until all partitions have two replicas.
    async fn kill_some_server(&mut self) {
        let waiting = async {
            while !self.may_lose() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let has_waited = tokio::time::timeout(LIMIT, waiting).await;
        assert!(has_waited.is_ok(), "redundancy is not restored: {}", self.world.describe());
        let names: Vec<Name> = self.world.servers.keys().cloned().collect();
        let Some(name) = self.dice.pick(&names) else { return };
        let silently = self.dice.once_in(3);
        self.log.record(format!("{name} is killed{}", if silently { " silently" } else { "" }));
        self.world.kill_server(&name, silently);
        self.last_fault = Instant::now();
        self.start_server(&name);
        self.world.report_desired();
    }

    /// Marks a server as leaving, or revokes that.
    fn leave(&mut self, name: &Name) {
        if self.world.leaving.contains(name) {
            self.world.leaving.retain(|other| other != name);
            self.log.record(format!("{name} stays"));
        } else if self.world.leaving.len() + 1 < self.world.servers.len() {
            self.world.leaving.push(name.clone());
            self.log.record(format!("{name} leaves"));
        }
        self.world.report_desired();
    }

    /// Stops leaving servers that host nothing any more.
    fn release(&mut self) {
        for name in self.world.released() {
            self.log.record(format!("{name} has left"));
            self.world.kill_server(&name, false);
            self.world.leaving.retain(|other| *other != name);
            self.world.report_desired();
        }
    }

    /// Disconnects two parties for a while.
    fn disconnect(&mut self) {
        let mut parties: Vec<Name> = self.world.servers.values().map(|one| one.address.clone()).collect();
        parties.push(Name::from(MASTER));
        let others: Vec<Name> = parties.iter().chain(self.workers.keys()).cloned().collect();
        let (Some(one), Some(other)) = (self.dice.pick(&parties), self.dice.pick(&others)) else { return };
        let is_of_server = !self.workers.contains_key(&other);
        if one == other || (is_of_server && !self.may_lose()) {
            return;
        }
        let time = self.dice.within(Duration::from_millis(if self.dice.once_in(2) { 1500 } else { 15_000 }));
        self.log.record(format!("{one} and {other} are disconnected for {:.3} s", time.as_secs_f64()));
        self.world.network.disconnect(&one, &other);
        if is_of_server {
            self.last_fault = Instant::now() + time;
        }
        let network = self.world.network.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            network.reconnect(&one, &other);
        });
    }

    async fn restart_master(&mut self) {
        let silently = self.dice.once_in(3);
        self.log.record("the master is killed");
        self.world.kill_master(silently);
        tokio::time::sleep(self.dice.within(Duration::from_secs(3))).await;
        self.world.start_master().await;
        self.log.record("another master takes over");
    }

    fn add_worker(&mut self) {
        self.last_worker += 1;
        let address = Name::from(format!("worker-{}", self.last_worker));
        let worker = Worker {
            id: WorkerId::new(address.as_ref(), 1),
            address: address.clone(),
            network: self.world.network.clone(),
            job: self.world.job(),
            keys: self.keys.clone(),
            steps: self.steps.clone(),
            pushed: self.pushed.clone(),
            dice: self.dice.split(),
            idle: Duration::from_millis(400),
        };
        let id = worker.id.clone();
        self.workers.insert(address, (id, tokio::spawn(worker.train())));
    }

    fn crash_worker(&mut self) {
        let names: Vec<Name> = self.workers.keys().cloned().collect();
        let Some((name, (id, task))) = self.dice.pick(&names).and_then(|name| self.workers.remove_entry(&name)) else {
            return;
        };
        if task.is_finished() {
            self.workers.insert(name, (id, task));
            return;
        }
        self.log.record(format!("{name} crashes"));
        task.abort();
        self.world.network.kill(&name, self.dice.once_in(3));
        tokio::spawn(report_lost(id, self.world.job()));
        self.add_worker();
    }

    /// Whether a server may be lost now. A careful history waits until all partitions have two replicas.
    fn may_lose(&self) -> bool {
        let is_calm = || self.last_fault.elapsed() >= CALM && self.last_fault <= Instant::now();
        let is_replicated = || self.world.is_settled() && self.world.status().is_some_and(|status| status.redundant);
        !self.scenario.is_careful || (is_calm() && self.world.network.is_connected() && is_replicated())
    }

    async fn end_faults(&mut self) {
        self.log.record("faults end");
        self.world.network.heal();
        while self.world.servers.len() < self.scenario.replication_factor as usize || !self.dice.once_in(2) {
            let Some(name) = self.down.pop() else { break };
            self.start_server(&name);
        }
        if self.world.servers.is_empty() {
            self.add_server();
        }
        self.world.report_desired();
    }

    /// Waits until all batches are trained and all partitions are placed as desired.
    async fn settle(&mut self) {
        loop {
            for (_, task) in std::mem::take(&mut self.workers).into_values() {
                task.await.expect("no worker fails");
            }
            self.log.record("all batches are trained");
            while !self.world.is_settled() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.release();
            }
            let job = running(&mut self.world.job()).await;
            if job.data().status().iter().all(|dataset| dataset.finished) {
                return;
            }
            // A lost server has caused a rewind, so there are batches again.
            self.add_worker();
        }
    }

    /// Checks the final model.
    async fn check(&mut self) {
        let checker = Worker {
            id: WorkerId::new("checker", 1),
            address: Name::from("checker"),
            network: self.world.network.clone(),
            job: self.world.job(),
            keys: self.keys.clone(),
            steps: None,
            pushed: Arc::default(),
            dice: self.dice.split(),
            idle: Duration::ZERO,
        };
        let mut client = checker.client().await;
        // The last step is announced with the last acknowledgement and committed a moment later.
        let rewind_epoch = self.world.rewind_epoch().await;
        let last = |steps: &Arc<Vec<ModelValues>>| PullFor::Step { committed: steps.len() as u64 - 1, rewind_epoch };
        let last = self.steps.as_ref().map(last);
        let values = loop {
            if let Some(values) = pull(&mut client, &self.keys, last.unwrap_or(PullFor::Evaluation)).await {
                break values;
            }
        };
        match &self.steps {
            Some(steps) => assert_eq!(Some(&values), steps.last(), "the model is not the sequential one"),
            None => self.check_counts(&values).await,
        }
    }

    async fn check_counts(&self, values: &ModelValues) {
        let all: Vec<(u32, u64)> = (0..self.scenario.epochs)
            .flat_map(|epoch| (0..self.scenario.batches).map(move |batch| (epoch, batch)))
            .collect();
        assert_eq!(self.pushed.lock().begun.len(), all.len(), "every batch was pushed");
        let mut lost = 0;
        let mut missed = BTreeMap::new();
        for (key, value) in &values.rows {
            let pushed = all.iter().filter(|batch| keys_of(**batch, &[*key]) == [*key]).count() as u64;
            lost += missing(*value, pushed);
            missed.insert(*key, missing(*value, pushed));
        }
        // The variable has one slice, so all elements have the same updates.
        assert!(values.weights.iter().all(|value| *value == values.weights[0]), "{:?}", values.weights);
        lost += missing(values.weights[0], all.len() as u64);
        if self.scenario.is_careful {
            missed.retain(|_, missed| *missed > 0);
            let closed = &self.pushed.lock().batch_closed;
            assert_eq!(
                lost, 0,
                "lost although all partitions had two replicas, by key: {missed:?}; rejected as closed: {closed:?}"
            );
        }
        let job = running(&mut self.world.job()).await;
        let reported = || job.servers().status().and_then(|status| status.updates).map_or(0, |updates| updates.lost);
        // A restored partition answers before the master knows its version.
        for _ in 0..100 {
            if lost <= reported() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // The count is exact where no lease changes hands between the report of the versions and the acknowledgement.
        let is_counted = if self.scenario.storm.is_some() { lost == reported() } else { lost <= reported() };
        assert!(is_counted, "{lost} updates are lost by the rows, but the master reports {}", reported());
    }
}

/// The number of missing updates of a row. Panics if there are too many updates.
fn missing(value: f32, pushed: u64) -> u64 {
    assert!(value >= 0.0 && value.fract() == 0.0, "{value} is no count");
    let applied = value as u64;
    assert!(applied <= pushed, "{applied} updates where {pushed} batches were pushed: some were applied twice");
    pushed - applied
}
