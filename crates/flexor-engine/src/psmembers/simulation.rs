//! Random histories: servers come, leave, die and hear of maps late; clients push; the master is started again from what
//! was durable. Each seed is one history and replays exactly.
//!
//! The servers here do what the protocol asks of them, with the parameters of a partition as the list of what was
//! applied to it. Whatever happens, no push is applied twice, and none that was answered is lost while its partition has
//! not begun again; with two copies none ever begins again as long as servers die one at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;

const PARTITIONS: u32 = 8;

/// What a server keeps of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    origin: Origin,
    applied: Vec<u64>,
}

/// A server, and what it was told last.
#[derive(Debug, Clone)]
struct Server {
    map: Map,
    orders: Vec<CopyOrder>,
    save: Option<SaveOrder>,
    /// The last checkpoint that it has written its part of: each order is carried out once.
    wrote: u64,
    kept: BTreeMap<Partition, Kept>,
    /// Moves whose copy has caught up: it answers nobody before the copy has the same.
    synced: BTreeMap<Partition, (u64, ServerId)>,
}

/// What the master has told, all at once and only when it is durable.
#[derive(Debug, Clone, Default)]
struct Told {
    map: Map,
    orders: BTreeMap<ServerId, Vec<CopyOrder>>,
    saves: BTreeMap<ServerId, SaveOrder>,
}

struct Simulation {
    dice: Dice,
    copies: u32,
    now: Duration,
    life: u64,
    members: PsMembers,
    journal: Vec<Fact>,
    durable: usize,
    told: Told,
    servers: BTreeMap<ServerId, Server>,
    lives: u64,
    names: u64,
    wanted: Wanted,
    answered: BTreeMap<Partition, BTreeSet<(Origin, u64)>>,
    pushes: u64,
    /// What was written into checkpoints, whether they were sealed or not.
    written: BTreeMap<u64, BTreeMap<Partition, Vec<u64>>>,
    /// Servers die only while everything is kept twice and everybody knows so.
    one_at_a_time: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let copies = 1 + dice.roll(2) as u32;
        let one_at_a_time = copies == 2 && dice.roll(2) == 0;
        let settings = settings(copies);
        let mut simulation = Self {
            dice,
            copies,
            now: Duration::from_secs(1),
            life: 1,
            members: PsMembers::new(settings),
            journal: Vec::new(),
            durable: 0,
            told: Told::default(),
            servers: BTreeMap::new(),
            lives: 0,
            names: 0,
            wanted: Wanted { expected: Some(1 + copies), leaving: BTreeSet::new() },
            answered: BTreeMap::new(),
            pushes: 0,
            written: BTreeMap::new(),
            one_at_a_time,
        };
        simulation.act(|members, _, _, facts| members.declare("model", facts).unwrap());
        simulation.act(PsMembers::follow);
        for _ in 0..=copies {
            simulation.start_another();
        }
        simulation
    }

    fn act(&mut self, act: impl FnOnce(&mut PsMembers, &Wanted, Duration, &mut Vec<Fact>)) {
        let mut facts = Vec::new();
        act(&mut self.members, &self.wanted, self.now, &mut facts);
        self.journal.extend(facts);
    }

    /// The journal is written; what was decided may be told.
    fn sync(&mut self) {
        self.durable = self.journal.len();
        // Also of servers that are gone and that the master waits for: whoever has a copy of theirs keeps it.
        let orders = self.members.present().map(|id| (id.clone(), self.members.orders(&id))).collect();
        let saves = self.servers.keys().filter_map(|id| Some((id.clone(), self.members.save_order(id)?))).collect();
        self.told = Told { map: self.members.map().clone(), orders, saves };
    }

    fn start_another(&mut self) {
        let name = format!("ps-{}", self.names);
        self.names += 1;
        self.start(&name);
    }

    fn start(&mut self, name: &str) {
        self.lives += 1;
        let id = ServerId::new(name, self.lives);
        let blank = Server {
            map: Map::default(),
            orders: Vec::new(),
            save: None,
            wrote: 0,
            kept: BTreeMap::new(),
            synced: BTreeMap::new(),
        };
        self.servers.insert(id.clone(), blank);
        self.act(|members, _, now, facts| members.came(&id, "here", now, facts).unwrap());
    }

    fn kill(&mut self, id: &ServerId) {
        self.servers.remove(id);
        if self.dice.roll(2) == 0 {
            let because = Because::new(Reason::ServerLost, "killed");
            self.act(|members, _, now, facts| members.gone(id, &because, now, facts));
        } else {
            self.members.session_lost(id, self.now);
        }
    }

    fn restart_master(&mut self) {
        self.journal.truncate(self.durable);
        self.life += 1;
        let mut members = PsMembers::default();
        self.journal.iter().for_each(|fact| members.replay(fact));
        self.members = members.resume(settings(self.copies), self.life, self.now);
        self.act(PsMembers::follow);
        let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
        for id in ids {
            self.act(|members, _, now, facts| members.came(&id, "here", now, facts).unwrap());
        }
        self.sync();
    }

    /// A server hears what was told last, and does it.
    fn hear(&mut self, id: &ServerId) {
        let told = self.told.clone();
        let Some(server) = self.servers.get_mut(id) else { return };
        if told.map.epoch < server.map.epoch {
            return;
        }
        server.map = told.map;
        server.orders = told.orders.get(id).cloned().unwrap_or_default();
        server.save = told.saves.get(id).cloned();
        let copied: BTreeSet<Partition> =
            self.told.orders.values().flatten().filter(|order| order.to == *id).map(|order| order.partition).collect();
        for (partition, seat) in server.map.clone().iter() {
            if seat.is_kept_by(id) {
                let is_it = server.kept.get(&partition).is_some_and(|kept| kept.origin == seat.origin);
                if !is_it {
                    let applied = match seat.origin.source {
                        Source::Initial => Vec::new(),
                        Source::Checkpoint(number) => self.written[&number][&partition].clone(),
                    };
                    server.kept.insert(partition, Kept { origin: seat.origin, applied });
                }
            } else if !copied.contains(&partition) {
                server.kept.remove(&partition);
            }
        }
        let orders = server.orders.clone();
        server.synced.retain(|partition, (number, _)| {
            orders.iter().any(|order| order.partition == *partition && order.number == *number)
        });
    }

    /// A server goes on with a copy it was told to make.
    fn copy(&mut self, id: &ServerId) {
        let Some(server) = self.servers.get(id) else { return };
        let Some(order) = server.orders.get(self.dice.roll(server.orders.len().max(1) as u64) as usize).cloned() else {
            return;
        };
        let CopyOrder { partition, number, to, freeze, .. } = order;
        let Some(kept) = server.kept.get(&partition).cloned() else { return };
        if server.map.seat(partition).is_none_or(|seat| seat.owner.as_ref() != Some(id)) {
            return;
        }
        if server.synced.get(&partition).is_none_or(|(synced, _)| *synced != number) {
            let Some(target) = self.servers.get(&to) else { return };
            // One that knows of a later map takes nothing from who is not the owner there.
            if target
                .map
                .seat(partition)
                .is_some_and(|seat| target.map.epoch > self.servers[id].map.epoch && seat.owner.as_ref() != Some(id))
            {
                return;
            }
            self.servers.get_mut(&to).unwrap().kept.insert(partition, kept);
            self.servers.get_mut(id).unwrap().synced.insert(partition, (number, to));
            self.act(|members, _, now, facts| members.synced(id, partition, number, now, facts));
        } else if freeze && self.forward(id, partition) {
            self.act(|members, _, now, facts| members.frozen(id, partition, number, now, facts));
        }
    }

    /// A server writes what it was told to.
    fn write(&mut self, id: &ServerId) {
        let Some(server) = self.servers.get(id) else { return };
        let Some(SaveOrder { number, seal, .. }) = server.save.clone() else { return };
        if let Some(seal) = seal {
            let parts = self.written.get(&number).map_or(0, BTreeMap::len);
            if parts == PARTITIONS as usize && !seal.parts.is_empty() {
                self.act(|members, _, now, facts| members.sealed(id, number, now, facts));
            }
            return;
        }
        if server.wrote >= number {
            return;
        }
        let mine = server.map.iter().filter(|(_, seat)| seat.owner.as_ref() == Some(id));
        let part: Vec<_> = mine.map(|(partition, _)| (partition, server.kept[&partition].applied.clone())).collect();
        self.written.entry(number).or_default().extend(part);
        self.servers.get_mut(id).unwrap().wrote = number;
        self.act(|members, _, now, facts| members.part_written(id, number, "part", now, facts));
    }

    /// Brings those who have to have the same as the owner to where it is; whether all are there.
    fn forward(&mut self, id: &ServerId, partition: Partition) -> bool {
        let server = &self.servers[id];
        let kept = server.kept[&partition].clone();
        let backup = server.map.seat(partition).and_then(|seat| seat.backup.clone());
        let followers: BTreeSet<ServerId> =
            backup.into_iter().chain(server.synced.get(&partition).map(|(_, to)| to.clone())).collect();
        let epoch = server.map.epoch;
        for follower in followers {
            let Some(other) = self.servers.get_mut(&follower) else { return false };
            let is_later = other.map.epoch > epoch;
            if is_later && other.map.seat(partition).is_some_and(|seat| seat.owner.as_ref() != Some(id)) {
                return false;
            }
            let known =
                other.kept.entry(partition).or_insert_with(|| Kept { origin: kept.origin, applied: Vec::new() });
            if known.origin > kept.origin {
                return false;
            }
            if known.origin == kept.origin && known.applied.starts_with(&kept.applied) {
                // Nothing is to be sent: it may even have more from a later owner, of which this one has not heard.
                continue;
            }
            assert!(
                known.origin < kept.origin || kept.applied.starts_with(&known.applied),
                "{follower} has something of {partition} that {id}, its owner, has not"
            );
            *known = kept.clone();
        }
        true
    }

    /// A client pushes to whoever it believes to be the owner.
    fn push(&mut self, id: &ServerId) {
        let partition = Partition(self.dice.roll(u64::from(PARTITIONS)) as u32);
        let Some(server) = self.servers.get_mut(id) else { return };
        let owns = server.map.seat(partition).is_some_and(|seat| seat.owner.as_ref() == Some(id));
        let frozen = server.orders.iter().any(|order| order.partition == partition && order.freeze);
        if !owns || frozen {
            return;
        }
        // Sometimes what was pushed before and perhaps not answered.
        let push = if self.dice.roll(4) == 0 { self.pushes.saturating_sub(self.dice.roll(4)) } else { self.pushes + 1 };
        self.pushes = self.pushes.max(push);
        let kept = server.kept.get_mut(&partition).expect("an owner keeps what it owns");
        if !kept.applied.contains(&push) {
            kept.applied.push(push);
        }
        let origin = kept.origin;
        if self.forward(id, partition) {
            self.answered.entry(partition).or_default().insert((origin, push));
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(200));
        let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
        let some = (!ids.is_empty()).then(|| ids[self.dice.roll(ids.len() as u64) as usize].clone());
        match (self.dice.roll(46), some) {
            (0..=7, Some(id)) => self.hear(&id),
            (8..=17, Some(id)) => self.push(&id),
            (18..=27, Some(id)) => self.copy(&id),
            (28..=31, _) => self.sync(),
            (32, Some(id)) if self.may_die(&id) => {
                self.kill(&id);
                self.start(&id.name);
            }
            (33, Some(id)) if self.may_die(&id) => self.kill(&id),
            (34, _) if ids.len() < 5 => self.start_another(),
            (35, Some(id)) => {
                if !self.wanted.leaving.remove(&id.name) && self.wanted.leaving.len() + 2 < ids.len() {
                    self.wanted.leaving.insert(id.name);
                }
                let here = ids.iter().filter(|id| !self.wanted.leaving.contains(&id.name)).count();
                self.wanted.expected = Some(here as u32);
                self.act(PsMembers::follow);
            }
            (36, _) => self.restart_master(),
            (37, _) => self.act(|members, _, now, facts| {
                members.begin_saving(now, facts);
            }),
            (38..=39, _) => self.act(|members, _, now, facts| members.write("here", None, now, facts)),
            (40..=43, Some(id)) => self.write(&id),
            _ => self.act(|members, _, now, facts| members.tick(now, facts)),
        }
    }

    fn may_die(&mut self, id: &ServerId) -> bool {
        let know = |sim: &Self| sim.servers.values().all(|server| server.map == *sim.members.map());
        let others = self.servers.len() > 2 && self.members.present().all(|server| self.servers.contains_key(&server));
        !self.one_at_a_time
            || (others && self.members.is_redundant() && know(self) && self.durable == self.journal.len())
                && self.servers.contains_key(id)
    }

    fn check(&self) {
        assert_eq!(invariants::broken(&self.members), None);
        for server in self.servers.values() {
            for (partition, kept) in &server.kept {
                let once: BTreeSet<u64> = kept.applied.iter().copied().collect();
                assert_eq!(once.len(), kept.applied.len(), "something was applied twice to {partition}");
            }
        }
    }

    /// The faults end: everything comes to rest, and what was answered is there.
    fn rest(&mut self) {
        let here = self.servers.keys().filter(|id| !self.wanted.leaving.contains(&id.name)).count();
        self.wanted.expected = Some(here as u32);
        self.act(PsMembers::follow);
        for _ in 0..2000 {
            self.now += Duration::from_millis(100);
            self.act(|members, _, now, facts| members.tick(now, facts));
            self.sync();
            let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
            for id in ids {
                self.hear(&id);
                self.copy(&id);
                self.write(&id);
            }
            self.act(|members, _, now, facts| members.write("here", None, now, facts));
            if self.members.is_settled() && self.members.saving.is_none() && self.now > Duration::from_secs(60) {
                break;
            }
        }
        assert!(self.members.is_settled(), "it never comes to rest: {:?}", self.members);
        let map = self.members.map().clone();
        let is_even = |of: &dyn Fn(&Seat) -> Option<ServerId>| {
            let mut has: BTreeMap<ServerId, usize> = self.members.lasting().into_iter().map(|id| (id, 0)).collect();
            map.seats.iter().filter_map(of).for_each(|server| *has.entry(server).or_default() += 1);
            has.values().max().unwrap() - has.values().min().unwrap() <= 1
        };
        assert!(is_even(&|seat| seat.owner.clone()), "{map:?}");
        let may_keep_two = self.copies == 2 && self.members.usable().len() > 1;
        assert!(!may_keep_two || (self.members.is_redundant() && is_even(&|seat| seat.backup.clone())), "{map:?}");
        for (partition, seat) in map.iter() {
            let owner = seat.owner.as_ref().expect("everything has an owner");
            let kept = &self.servers[owner].kept[&partition];
            assert_eq!(kept.origin, seat.origin);
            for (origin, push) in self.answered.get(&partition).into_iter().flatten() {
                assert!(
                    *origin != seat.origin || kept.applied.contains(push),
                    "{partition} lost {push}, which was answered"
                );
            }
            if let Source::Checkpoint(number) = seat.origin.source {
                let began_with = &self.written[&number][&partition];
                assert!(kept.applied.starts_with(began_with), "{partition} did not begin with checkpoint {number}");
            }
            if self.one_at_a_time {
                assert_eq!(seat.origin.number, 1, "{partition} began again though it was kept twice");
            }
            if let Some(backup) = &seat.backup {
                assert_eq!(self.servers[backup].kept[&partition].origin, seat.origin);
            }
        }
        let released: Vec<&Arc<str>> = self.members.released().collect();
        let leaving: Vec<&Arc<str>> = self.wanted.leaving.iter().collect();
        if self.servers.keys().any(|id| !self.wanted.leaving.contains(&id.name)) {
            assert_eq!(released, leaving);
        }
    }
}

fn settings(copies: u32) -> Settings {
    Settings { partitions: PARTITIONS, copies, ..Settings::default() }
}

#[test]
fn no_answered_push_is_lost_and_none_is_applied_twice() {
    for seed in 0..2000 {
        let mut simulation = Simulation::new(seed);
        for _ in 0..300 {
            simulation.step();
            simulation.check();
        }
        if simulation.servers.is_empty() {
            simulation.start_another();
        }
        simulation.rest();
    }
}
