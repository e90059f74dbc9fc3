//! Random histories of the membership. Servers connect, drain, die, are cut off, reconnect, and learn of maps late.
//! Clients push; syncs fail; checkpoints are made, deleted and damaged; the master pauses and restarts. Each seed is one
//! history and replays exactly.
//!
//! The servers follow the protocol ([`server`]); the parameters of a partition are the list of applied pushes. No push is
//! applied twice. No acknowledged push is lost within a generation. With two replicas no partition starts a new generation
//! as long as servers die one at a time. Synchronous training rewinds all partitions and the data together ([`claims`]).
//! After each action the state equals a replay of the journal ([`journal`]).

mod claims;
mod journal;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;
use journal::Journal;
use server::{PublishedPlan, SimulatedServer};

const PARTITIONS: u32 = 8;
/// A checkpoint of an earlier job: its number, and how many steps or pushes it contains.
const INHERITED: (u64, u64) = (5, 3);

struct Simulation {
    dice: Dice,
    settings: Settings,
    now: Duration,
    journal_generation: u64,
    members: PsMembership,
    journal: Journal,
    /// What servers may learn: the durable state.
    published: PublishedPlan,
    servers: BTreeMap<ServerId, SimulatedServer>,
    last_incarnation: u64,
    names: u64,
    desired: DesiredServers,
    acknowledged: BTreeMap<Partition, BTreeSet<(PartitionGeneration, u64)>>,
    pushes: u64,
    /// Rewind epoch, next step, and the partitions that have acknowledged it.
    step_acknowledged: (MapEpoch, u64, BTreeSet<Partition>),
    /// Contents of checkpoints, sealed or not.
    written: BTreeMap<u64, BTreeMap<Partition, Vec<u64>>>,
    /// Complete checkpoints in the directory.
    directory: BTreeSet<u64>,
    /// Servers die only while every partition has two replicas and all servers know the map.
    one_at_a_time: bool,
}

impl Simulation {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut dice = Dice(seed);
        let replication_factor = 1 + dice.roll(2) as u32;
        let one_at_a_time = replication_factor == 2 && dice.roll(2) == 0;
        let keep = Some(dice.roll(4) as usize).filter(|keep| *keep < 3);
        let settings = Settings { partitions: PARTITIONS, replication_factor, mode, keep, ..Settings::default() };
        let mut simulation = Self {
            dice,
            now: Duration::from_secs(1),
            journal_generation: 1,
            members: PsMembership::new(settings.clone()),
            settings,
            journal: Journal::default(),
            published: PublishedPlan::default(),
            servers: BTreeMap::new(),
            last_incarnation: 0,
            names: 0,
            desired: DesiredServers { expected: Some(1 + replication_factor), leaving: BTreeSet::new() },
            acknowledged: BTreeMap::new(),
            pushes: INHERITED.1,
            step_acknowledged: (MapEpoch(0), 0, BTreeSet::new()),
            written: BTreeMap::new(),
            directory: BTreeSet::new(),
            one_at_a_time,
        };
        if keep.is_some() && simulation.dice.roll(2) == 0 {
            let learnt = || (1..=INHERITED.1).collect();
            simulation.written.insert(INHERITED.0, (0..PARTITIONS).map(|one| (Partition(one), learnt())).collect());
            simulation.directory.insert(INHERITED.0);
        }
        simulation.act(PsMembership::set_desired);
        for _ in 0..=replication_factor {
            simulation.start_another();
        }
        simulation.list_checkpoints();
        simulation.act(|members, _, _, facts| members.declare_model("model", facts).unwrap());
        simulation
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut PsMembership, &DesiredServers, Duration, &mut Vec<Fact>) -> T) -> T {
        let mut facts = Vec::new();
        let answer = act(&mut self.members, &self.desired, self.now, &mut facts);
        self.check_facts(&facts);
        self.journal.write(facts, &self.members);
        answer
    }

    /// A server reports; the report is lost while the server is cut off.
    fn report(&mut self, id: &ServerId, act: impl FnOnce(&mut PsMembership, Duration, &mut Vec<Fact>)) {
        if self.servers.get(id).is_some_and(|server| !server.is_cut_off) {
            self.act(|members, _, now, facts| act(members, now, facts));
        }
    }

    /// The journal is durable; servers may learn of the decisions.
    fn publish(&mut self) {
        self.journal.sync(&self.members, self.dice.roll(8) == 0);
        // Also for lost servers that may still reconnect: receivers of their syncs keep what they have.
        let orders = self.members.servers().map(|id| (id.clone(), self.members.sync_orders(&id))).collect();
        let checkpoints =
            self.servers.keys().filter_map(|id| Some((id.clone(), self.members.checkpoint_order(id)?))).collect();
        let steps = self.journal.steps();
        self.published = PublishedPlan {
            map: self.members.map().clone(),
            rewind_epoch: self.members.rewind_epoch(),
            steps: self.members.held_step().map_or(steps, |held| steps.min(held)),
            orders,
            checkpoints,
            latest: self.members.checkpoints().last().map(|checkpoint| checkpoint.number),
        };
    }

    fn start_another(&mut self) {
        let name = format!("ps-{}", self.names);
        self.names += 1;
        self.start(&name);
    }

    fn start(&mut self, name: &str) {
        self.last_incarnation += 1;
        let id = ServerId::new(name, self.last_incarnation);
        self.servers.insert(id.clone(), SimulatedServer::default());
        self.reconnect(&id);
    }

    fn kill(&mut self, id: &ServerId) {
        self.servers.remove(id);
        if self.dice.roll(2) == 0 {
            let cause = Cause::new(Reason::ServerLost, "killed");
            self.act(|members, _, now, facts| members.remove_server(id, &cause, now, facts));
        } else {
            self.act(|members, _, now, _| members.disconnect_server(id, now));
        }
    }

    /// Cuts a server off from the master. Clients and other servers still reach it.
    fn cut_off(&mut self, id: &ServerId) {
        if let Some(server) = self.servers.get_mut(id) {
            server.is_cut_off = true;
            self.act(|members, _, now, _| members.disconnect_server(id, now));
        }
    }

    /// A server connects, for the first time or again with its data. One with a later incarnation ends.
    fn reconnect(&mut self, id: &ServerId) {
        let connected = self.act(|members, _, now, facts| members.connect_server(id, "here", now, facts));
        if connected.is_err() {
            self.servers.remove(id);
            return;
        }
        self.servers.retain(|other, server| other == id || other.name != id.name || server.is_cut_off);
        if let Some(server) = self.servers.get_mut(id) {
            server.is_cut_off = false;
        }
    }

    /// A server lists the checkpoint directory, if the master needs that.
    fn list_checkpoints(&mut self) {
        if !self.members.needs_checkpoint_listing() || self.servers.values().all(|server| server.is_cut_off) {
            return;
        }
        let highest = self.written.last_key_value().map_or(0, |(number, _)| *number);
        let latest = self.directory.last().map(|number| (*number, INHERITED.1));
        let latest = latest.map(|(number, steps)| Checkpoint { number, ledger: steps.to_string().into() });
        self.act(|members, _, now, facts| {
            members.record_found_checkpoints(latest.map(|latest| (latest, "model")), highest, now, facts);
        });
    }

    /// Running transfers, the number of decisions, and whether a checkpoint is in progress.
    fn progress(&self) -> (Vec<u64>, usize, bool) {
        let transfers = self.members.transfers.values().map(|transfer| transfer.sync_id).collect();
        (transfers, self.journal.len(), self.members.is_checkpointing())
    }

    /// The master pauses for a while, which changes nothing.
    fn pause_master(&mut self) {
        // A decision may lead to another, but without events there is a last one.
        let mut before = None;
        for _ in 0..=PARTITIONS * 4 {
            before = Some(self.progress());
            self.act(|members, _, now, facts| members.tick(now, facts));
            if before == Some(self.progress()) {
                break;
            }
        }
        assert_eq!(before, Some(self.progress()), "decisions never end");
        let registered: Vec<ServerId> = self.members.servers().collect();
        let (transfers, records, is_checkpointing) = self.progress();
        self.now += Duration::from_secs(4 + self.dice.roll(1000));
        self.act(|members, _, now, facts| members.tick(now, facts));
        let after = self.progress();
        assert_eq!(after.1, records, "the pause led to a decision");
        assert!(self.members.servers().eq(registered) && transfers.iter().all(|number| after.0.contains(number)));
        assert_eq!(after.2, is_checkpointing);
    }

    fn restart_master(&mut self) {
        self.journal_generation += 1;
        self.members = self.journal.read().resume(self.settings.clone(), self.journal_generation, self.now);
        self.step_acknowledged.2.clear();
        self.act(PsMembership::set_desired);
        let reachable = self.servers.iter().filter(|(_, server)| !server.is_cut_off);
        let ids: Vec<ServerId> = reachable.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.reconnect(&id);
        }
        self.list_checkpoints();
        self.act(|members, _, _, facts| members.declare_model("model", facts).unwrap());
        self.publish();
    }

    fn start_writing(&mut self) {
        let steps = self.journal.steps();
        let is_synchronous = self.settings.mode == Mode::Sync;
        self.act(|members, _, now, facts| {
            members.start_writing(steps.to_string(), Some(steps).filter(|_| is_synchronous), now, facts);
        });
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(200));
        let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
        let some = (!ids.is_empty()).then(|| ids[self.dice.roll(ids.len() as u64) as usize].clone());
        match (self.dice.roll(58), some) {
            (0..=8, Some(id)) => self.apply_plan(&id),
            (9..=18, Some(id)) => self.push(&id),
            (19..=28, Some(id)) => self.sync_partition(&id),
            (29..=32, _) => self.publish(),
            (33, Some(id)) if self.may_die(&id) => {
                // Sometimes the earlier incarnation is only cut off and keeps running.
                if self.dice.roll(4) == 0 {
                    self.cut_off(&id);
                } else {
                    self.kill(&id);
                }
                self.start(&id.name);
            }
            (34, Some(id)) if self.may_die(&id) => self.kill(&id),
            (35, _) if ids.len() < 5 => self.start_another(),
            (36, Some(id)) => {
                if !self.desired.leaving.remove(&id.name) && self.desired.leaving.len() + 2 < ids.len() {
                    self.desired.leaving.insert(id.name);
                }
                let staying = ids.iter().filter(|id| !self.desired.leaving.contains(&id.name)).count();
                self.desired.expected = Some(staying as u32);
                self.act(PsMembership::set_desired);
            }
            (37, _) => self.restart_master(),
            (38, _) => {
                self.act(|members, _, now, facts| members.start_checkpoint(now, facts));
            }
            (39..=40, _) => self.start_writing(),
            (41..=45, Some(id)) => self.write_part(&id),
            (46, Some(id)) if self.servers[&id].is_cut_off => self.reconnect(&id),
            (46, Some(id)) if self.may_die(&id) => self.cut_off(&id),
            (47..=48, Some(id)) if self.servers[&id].is_cut_off => self.reconnect(&id),
            (47, Some(id)) => self.lose_backup(&id),
            (48, Some(id)) => self.fail_sync(&id),
            (49, Some(id)) => self.report_sync_progress(&id),
            (50, _) => self.pause_master(),
            (51, _) if !self.one_at_a_time && self.dice.roll(4) == 0 => {
                // A user deletes a checkpoint.
                self.directory.pop_last();
            }
            _ => self.act(|members, _, now, facts| members.tick(now, facts)),
        }
    }

    fn may_die(&mut self, id: &ServerId) -> bool {
        let know = |sim: &Self| sim.servers.values().all(|server| server.map == *sim.members.map());
        let others = self.servers.len() > 2 && self.members.servers().all(|server| self.servers.contains_key(&server));
        !self.one_at_a_time
            || (others && self.members.is_fully_replicated() && know(self) && self.journal.is_durable())
                && self.servers.contains_key(id)
    }

    fn run(mut self) {
        for _ in 0..300 {
            self.step();
            self.check();
        }
        self.settle();
    }
}

fn play(seeds: std::ops::Range<u64>, mode: Mode) {
    flexor_seeds::each(seeds, |seed| Simulation::new(seed, mode).run());
}

#[test]
fn no_acknowledged_push_is_lost_and_none_is_applied_twice() {
    play(0..2000, Mode::Async);
}

#[test]
fn synchronous_training_rewinds_everything_together_and_loses_no_step() {
    play(0..2000, Mode::Sync);
}
