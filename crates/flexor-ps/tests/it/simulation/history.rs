//! One history: what happens to whom and when follows from its seed.
//!
//! While workers learn, parties are killed, cut off, added and taken away. Then all trouble ends, and everything has to
//! come to rest with the right model.

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
use super::model::{self, Values, keys_of};
use super::network::{Name, Network};
use super::workers::{DATASET, Pushed, Worker, pull, said, tell_lost};
use super::world::{MASTER, World, running};

/// Nobody may need longer, however much trouble there was.
const LIMIT: Duration = Duration::from_secs(120);
/// How long after a server was in trouble nothing is lost with another one.
const CALM: Duration = Duration::from_secs(4);
const MOST_SERVERS: usize = 4;

/// What kind of history it is.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    seed: u64,
    copies: u32,
    /// Servers are lost only while everything is kept twice: then nothing may be lost.
    is_careful: bool,
    /// How many batches make a step, where training goes in steps.
    steps: Option<u64>,
    checkpoints: Option<Duration>,
    workers: u64,
    epochs: u32,
    batches: u64,
    troubles: u64,
}

impl Plan {
    pub(crate) fn of(seed: u64, dice: &Dice) -> Self {
        let copies = 1 + dice.roll(3).min(1) as u32;
        let is_careful = copies == 2 && !dice.once_in(3);
        let steps = dice.once_in(3).then(|| 1 + dice.roll(4));
        let checkpoints = (!dice.once_in(3)).then(|| Duration::from_millis(1000 + dice.roll(5000)));
        let (workers, epochs, batches) = (1 + dice.roll(3), 1 + dice.roll(2) as u32, 15 + dice.roll(45));
        Self { seed, copies, is_careful, steps, checkpoints, workers, epochs, batches, troubles: 3 + dice.roll(11) }
    }
}

pub(crate) struct History {
    plan: Plan,
    dice: Dice,
    world: World,
    keys: Arc<Vec<u64>>,
    pushed: Arc<Mutex<Pushed>>,
    /// What every step begins with, where training goes in steps.
    steps: Option<Arc<Vec<Values>>>,
    workers: BTreeMap<Name, (WorkerId, JoinHandle<()>)>,
    last_worker: u64,
    last_server: u64,
    down: Vec<Name>,
    /// When a server was last in trouble.
    trouble: Instant,
    log: Log,
    /// The checkpoints are there as long as the history.
    _folder: TempDir,
}

/// What happened, printed when the history goes wrong.
struct Log {
    plan: Plan,
    begun: Instant,
    lines: Vec<String>,
}

impl Log {
    fn say(&mut self, what: impl std::fmt::Display) {
        let line = format!("{:>9.3} s  {what}", self.begun.elapsed().as_secs_f64());
        if std::env::var_os("FLEXOR_SIMULATION_LOG").is_some() {
            eprintln!("{line}");
        }
        self.lines.push(line);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.plan.seed;
            eprintln!("seed {seed} went wrong: {:?}\n{}", self.plan, self.lines.join("\n"));
        }
    }
}

impl History {
    pub(crate) async fn begin(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let plan = Plan::of(seed, &dice);
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = plan.checkpoints.map(|every| {
            let folder = folder.path().join("checkpoints").display().to_string();
            Checkpoints { folder, every, keep: 2 }
        });
        let world = World::begin(Network::new(dice.split()), plan.copies, checkpoints).await;
        let log = Log { plan: plan.clone(), begun: Instant::now(), lines: Vec::new() };
        let keys = Arc::new(model::keys());
        let in_steps = |in_step| Arc::new(model::sequential(&keys, plan.epochs, plan.batches, in_step));
        let mut history = Self {
            steps: plan.steps.map(in_steps),
            plan,
            dice,
            world,
            keys,
            pushed: Arc::default(),
            workers: BTreeMap::new(),
            last_worker: 0,
            last_server: 0,
            down: Vec::new(),
            trouble: Instant::now(),
            log,
            _folder: folder,
        };
        history.register().await;
        (0..=history.dice.roll(3)).for_each(|_| history.add_server());
        history.world.want();
        (0..history.plan.workers).for_each(|_| history.add_worker());
        history
    }

    /// From the beginning to the end.
    pub(crate) async fn play(mut self) {
        for _ in 0..self.plan.troubles {
            tokio::time::sleep(self.dice.within(Duration::from_millis(1500))).await;
            self.trouble().await;
        }
        self.end_trouble().await;
        if tokio::time::timeout(LIMIT, self.rest()).await.is_err() {
            let begun = self.pushed.lock().begun.len();
            panic!("it never comes to rest: {}; {begun} batches were pushed", self.world.described());
        }
        self.log.say("all is learnt, and nothing moves");
        tokio::time::timeout(LIMIT, self.check()).await.expect("the model can be looked at");
    }

    async fn register(&self) {
        let steps = self.plan.steps.and_then(NonZeroU64::new).map(|batches| StepSpec { batches, ahead: 0 });
        let spec = DatasetSpec::new(DATASET, self.plan.batches, 1).unwrap();
        let spec = spec.with_epochs(Some(self.plan.epochs)).with_order(Order::Sequential).with_steps(steps);
        let job = running(&mut self.world.job()).await;
        job.data().register(spec).await.unwrap();
    }

    async fn trouble(&mut self) {
        let names: Vec<Name> = self.world.servers.keys().cloned().collect();
        let some = self.dice.pick(&names);
        match (self.dice.roll(16), some) {
            (0..=1, _) if names.len() < MOST_SERVERS => {
                self.add_server();
                self.world.want();
            }
            (2..=3, Some(name)) => self.leave(&name),
            (4..=6, Some(name)) if self.may_lose() => self.kill_server(&name),
            (7..=8, _) => {
                if let Some(wire) = self.world.network.cut_one() {
                    self.log.say(format!("cut {wire}"));
                }
            }
            (9..=11, _) => self.part(),
            (12, _) => self.restart_master().await,
            (13, _) => self.crash_worker(),
            (14..=15, _) => {
                if let Some(name) = self.down.pop() {
                    self.start_server(&name);
                    self.world.want();
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
        self.log.say(format!("{} starts", self.world.servers[name].address));
    }

    fn kill_server(&mut self, name: &Name) {
        let silently = self.dice.once_in(3);
        self.log.say(format!("{name} is killed{}", if silently { " without a word" } else { "" }));
        self.world.kill_server(name, silently);
        self.trouble = Instant::now();
        match self.dice.roll(3) {
            0 => self.start_server(name),
            1 => {
                self.down.push(name.clone());
                // Its controller sees that it is gone.
                self.world.want();
            }
            _ => self.down.push(name.clone()),
        }
    }

    /// A server is to leave, or is not to after all.
    fn leave(&mut self, name: &Name) {
        if self.world.leaving.contains(name) {
            self.world.leaving.retain(|other| other != name);
            self.log.say(format!("{name} is to stay"));
        } else if self.world.leaving.len() + 1 < self.world.servers.len() {
            self.world.leaving.push(name.clone());
            self.log.say(format!("{name} is to leave"));
        }
        self.world.want();
    }

    /// Servers that were to leave and keep nothing any more are ended.
    fn release(&mut self) {
        for name in self.world.released() {
            self.log.say(format!("{name} has left"));
            self.world.kill_server(&name, false);
            self.world.leaving.retain(|other| *other != name);
            self.world.want();
        }
    }

    /// Two parties are apart for a while.
    fn part(&mut self) {
        let mut parties: Vec<Name> = self.world.servers.values().map(|one| one.address.clone()).collect();
        parties.push(Name::from(MASTER));
        let others: Vec<Name> = parties.iter().chain(self.workers.keys()).cloned().collect();
        let (Some(one), Some(other)) = (self.dice.pick(&parties), self.dice.pick(&others)) else { return };
        let is_of_server = !self.workers.contains_key(&other);
        if one == other || (is_of_server && !self.may_lose()) {
            return;
        }
        let time = self.dice.within(Duration::from_millis(if self.dice.once_in(2) { 1500 } else { 15_000 }));
        self.log.say(format!("{one} and {other} are apart for {:.3} s", time.as_secs_f64()));
        self.world.network.part(&one, &other);
        if is_of_server {
            self.trouble = Instant::now() + time;
        }
        let network = self.world.network.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            network.join(&one, &other);
        });
    }

    async fn restart_master(&mut self) {
        let silently = self.dice.once_in(3);
        self.log.say("the master is killed");
        self.world.kill_master(silently);
        tokio::time::sleep(self.dice.within(Duration::from_secs(3))).await;
        self.world.start_master().await;
        self.log.say("another master takes over");
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
        self.workers.insert(address, (id, tokio::spawn(worker.learn())));
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
        self.log.say(format!("{name} crashes"));
        task.abort();
        self.world.network.kill(&name, self.dice.once_in(3));
        tokio::spawn(tell_lost(id, self.world.job()));
        self.add_worker();
    }

    /// Whether a server may be lost: always, unless nothing may be lost with it.
    fn may_lose(&self) -> bool {
        let is_calm = || self.trouble.elapsed() >= CALM && self.trouble <= Instant::now();
        let is_twice = || self.world.is_settled() && self.world.status().is_some_and(|status| status.redundant);
        !self.plan.is_careful || (is_calm() && self.world.network.is_whole() && is_twice())
    }

    async fn end_trouble(&mut self) {
        self.log.say("trouble ends");
        self.world.network.heal();
        while self.world.servers.len() < self.plan.copies as usize || !self.dice.once_in(2) {
            let Some(name) = self.down.pop() else { break };
            self.start_server(&name);
        }
        if self.world.servers.is_empty() {
            self.add_server();
        }
        self.world.want();
    }

    /// Until all is learnt and every partition is where it should be.
    async fn rest(&mut self) {
        loop {
            for (_, task) in std::mem::take(&mut self.workers).into_values() {
                task.await.expect("no worker fails");
            }
            self.log.say("all is learnt");
            while !self.world.is_settled() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.release();
            }
            let job = running(&mut self.world.job()).await;
            if job.data().status().iter().all(|dataset| dataset.finished) {
                return;
            }
            // A server that was lost has taken everybody back.
            self.add_worker();
        }
    }

    /// The model is what it should be.
    async fn check(&mut self) {
        let looker = Worker {
            id: WorkerId::new("looker", 1),
            address: Name::from("looker"),
            network: self.world.network.clone(),
            job: self.world.job(),
            keys: self.keys.clone(),
            steps: None,
            pushed: Arc::default(),
            dice: self.dice.split(),
            idle: Duration::ZERO,
        };
        let mut client = looker.client().await;
        // The last step is told when the last batch is acknowledged, and taken a moment later.
        let rewound = self.world.rewound().await;
        let last = |steps: &Arc<Vec<Values>>| PullFor::Step { taken: steps.len() as u64 - 1, rewound };
        let last = self.steps.as_ref().map(last);
        let values = loop {
            if let Some(values) = pull(&mut client, &self.keys, last.unwrap_or(PullFor::Looking)).await {
                break values;
            }
        };
        match &self.steps {
            Some(steps) => assert_eq!(Some(&values), steps.last(), "the model is not the sequential one"),
            None => self.check_counts(&values).await,
        }
    }

    async fn check_counts(&self, values: &Values) {
        let all: Vec<(u32, u64)> =
            (0..self.plan.epochs).flat_map(|epoch| (0..self.plan.batches).map(move |batch| (epoch, batch))).collect();
        assert_eq!(self.pushed.lock().begun.len(), all.len(), "every batch was pushed");
        let mut lost = 0;
        let mut missed = BTreeMap::new();
        for (key, value) in &values.rows {
            let pushed = all.iter().filter(|batch| keys_of(**batch, &[*key]) == [*key]).count() as u64;
            lost += missing(*value, pushed);
            missed.insert(*key, missing(*value, pushed));
        }
        // One variable, one slice: all of its elements have seen the same.
        assert!(values.weights.iter().all(|value| *value == values.weights[0]), "{:?}", values.weights);
        lost += missing(values.weights[0], all.len() as u64);
        if self.plan.is_careful {
            missed.retain(|_, missed| *missed > 0);
            let late = &self.pushed.lock().too_late;
            assert_eq!(lost, 0, "lost though everything was kept twice, by key: {missed:?}; said to be late: {late:?}");
        }
        let job = running(&mut self.world.job()).await;
        let answered: Vec<_> = self.pushed.lock().answered.iter().map(|(of, version)| (*of, *version)).collect();
        job.servers().updates(&WorkerId::new("looker", 1), &said(answered.into_iter())).unwrap();
        let told = || job.servers().status().and_then(|status| status.updates).map_or(0, |updates| updates.lost);
        // A partition answers as soon as it has begun again; with what it began the master hears a moment later.
        for _ in 0..100 {
            if lost <= told() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{lost} updates are lost, and the master tells of {}", told());
    }
}

/// How many updates of a row are missing; more than there were is never right.
fn missing(value: f32, pushed: u64) -> u64 {
    assert!(value >= 0.0 && value.fract() == 0.0, "{value} is no count");
    let applied = value as u64;
    assert!(applied <= pushed, "{applied} updates where {pushed} batches were pushed: some were applied twice");
    pushed - applied
}
