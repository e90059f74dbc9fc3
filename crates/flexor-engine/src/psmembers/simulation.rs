//! Random histories: servers come, leave, die, are cut off and come back, and hear of maps late; clients push; copies
//! fail, checkpoints are made, forgotten and damaged; the master is stopped, and started again from what was durable. Each
//! seed is one history and replays exactly.
//!
//! The servers here do what the protocol asks of them ([`server`]), with the parameters of a partition as the list of what
//! was applied to it. Whatever happens, no push is applied twice, and none that was answered is lost while its partition
//! has not begun again; with two copies none ever begins again as long as servers die one at a time. In steps everything
//! goes back together, and the data with it ([`claims`]). After each act the machine is what its journal says
//! ([`journal`]).

mod claims;
mod journal;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::dice::Dice;
use journal::Journal;
use server::{Server, Told};

const PARTITIONS: u32 = 8;
/// A checkpoint of a job before this one, and how many steps or pushes are in it.
const INHERITED: (u64, u64) = (5, 3);

struct Simulation {
    dice: Dice,
    settings: Settings,
    now: Duration,
    life: u64,
    members: PsMembers,
    journal: Journal,
    told: Told,
    servers: BTreeMap<ServerId, Server>,
    lives: u64,
    names: u64,
    wanted: Wanted,
    answered: BTreeMap<Partition, BTreeSet<(Origin, u64)>>,
    pushes: u64,
    /// Which partitions have answered for the next step, since which return.
    step_answers: (PsEpoch, u64, BTreeSet<Partition>),
    /// What was written into checkpoints, whether they were sealed or not.
    written: BTreeMap<u64, BTreeMap<Partition, Vec<u64>>>,
    /// Checkpoints that are whole and in the folder.
    folder: BTreeSet<u64>,
    /// Servers die only while everything is kept twice and everybody knows so.
    one_at_a_time: bool,
}

impl Simulation {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut dice = Dice(seed);
        let copies = 1 + dice.roll(2) as u32;
        let one_at_a_time = copies == 2 && dice.roll(2) == 0;
        let keep = Some(dice.roll(4) as usize).filter(|keep| *keep < 3);
        let settings = Settings { partitions: PARTITIONS, copies, mode, keep, ..Settings::default() };
        let mut simulation = Self {
            dice,
            now: Duration::from_secs(1),
            life: 1,
            members: PsMembers::new(settings.clone()),
            settings,
            journal: Journal::default(),
            told: Told::default(),
            servers: BTreeMap::new(),
            lives: 0,
            names: 0,
            wanted: Wanted { expected: Some(1 + copies), leaving: BTreeSet::new() },
            answered: BTreeMap::new(),
            pushes: INHERITED.1,
            step_answers: (PsEpoch(0), 0, BTreeSet::new()),
            written: BTreeMap::new(),
            folder: BTreeSet::new(),
            one_at_a_time,
        };
        if keep.is_some() && simulation.dice.roll(2) == 0 {
            let learnt = || (1..=INHERITED.1).collect();
            simulation.written.insert(INHERITED.0, (0..PARTITIONS).map(|one| (Partition(one), learnt())).collect());
            simulation.folder.insert(INHERITED.0);
        }
        simulation.act(PsMembers::follow);
        for _ in 0..=copies {
            simulation.start_another();
        }
        simulation.look();
        simulation.act(|members, _, _, facts| members.declare("model", facts).unwrap());
        simulation
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut PsMembers, &Wanted, Duration, &mut Vec<Fact>) -> T) -> T {
        let mut facts = Vec::new();
        let answer = act(&mut self.members, &self.wanted, self.now, &mut facts);
        self.check_facts(&facts);
        self.journal.write(facts, &self.members);
        answer
    }

    /// A server says something; nobody hears it while it is cut off.
    fn report(&mut self, id: &ServerId, act: impl FnOnce(&mut PsMembers, Duration, &mut Vec<Fact>)) {
        if self.servers.get(id).is_some_and(|server| !server.is_cut_off) {
            self.act(|members, _, now, facts| act(members, now, facts));
        }
    }

    /// The journal is written; what was decided may be told.
    fn sync(&mut self) {
        self.journal.sync(&self.members, self.dice.roll(8) == 0);
        // Also of servers that are gone and that the master waits for: whoever has a copy of theirs keeps it.
        let orders = self.members.present().map(|id| (id.clone(), self.members.orders(&id))).collect();
        let saves = self.servers.keys().filter_map(|id| Some((id.clone(), self.members.save_order(id)?))).collect();
        let steps = self.journal.steps();
        self.told = Told {
            map: self.members.map().clone(),
            rewound: self.members.rewound(),
            steps: self.members.held_at().map_or(steps, |held| steps.min(held)),
            orders,
            saves,
            latest: self.members.checkpoints().last().map(|checkpoint| checkpoint.number),
        };
    }

    fn start_another(&mut self) {
        let name = format!("ps-{}", self.names);
        self.names += 1;
        self.start(&name);
    }

    fn start(&mut self, name: &str) {
        self.lives += 1;
        let id = ServerId::new(name, self.lives);
        self.servers.insert(id.clone(), Server::default());
        self.come_back(&id);
    }

    fn kill(&mut self, id: &ServerId) {
        self.servers.remove(id);
        if self.dice.roll(2) == 0 {
            let cause = Cause::new(Reason::ServerLost, "killed");
            self.act(|members, _, now, facts| members.gone(id, &cause, now, facts));
        } else {
            self.act(|members, _, now, _| members.session_lost(id, now));
        }
    }

    /// The master does not hear a server any more, nor it the master; clients and other servers do.
    fn cut_off(&mut self, id: &ServerId) {
        if let Some(server) = self.servers.get_mut(id) {
            server.is_cut_off = true;
            self.act(|members, _, now, _| members.session_lost(id, now));
        }
    }

    /// A server comes, or comes back with what it has. One of which a later life has come ends.
    fn come_back(&mut self, id: &ServerId) {
        let came = self.act(|members, _, now, facts| members.came(id, "here", now, facts));
        if came.is_err() {
            self.servers.remove(id);
            return;
        }
        self.servers.retain(|other, server| other == id || other.name != id.name || server.is_cut_off);
        if let Some(server) = self.servers.get_mut(id) {
            server.is_cut_off = false;
        }
    }

    /// A server looks what is in the folder, if that is to be known.
    fn look(&mut self) {
        if !self.members.has_to_look() || self.servers.values().all(|server| server.is_cut_off) {
            return;
        }
        let highest = self.written.last_key_value().map_or(0, |(number, _)| *number);
        let latest = self.folder.last().map(|number| (*number, INHERITED.1));
        let latest = latest.map(|(number, steps)| Checkpoint { number, ledger: steps.to_string().into() });
        self.act(|members, _, now, facts| {
            members.found(latest.map(|latest| (latest, "model")), highest, now, facts);
        });
    }

    /// Which moves are under way, and how much is decided.
    fn standing(&self) -> (Vec<u64>, usize, bool) {
        let moves = self.members.moves.values().map(|step| step.number).collect();
        (moves, self.journal.len(), self.members.is_saving())
    }

    /// The master is stopped for a while. What was there before still is.
    fn stop_master(&mut self) {
        // One decision may follow from another; but without anything that happens there is a last one.
        let mut before = None;
        for _ in 0..=PARTITIONS * 4 {
            before = Some(self.standing());
            self.act(|members, _, now, facts| members.tick(now, facts));
            if before == Some(self.standing()) {
                break;
            }
        }
        assert_eq!(before, Some(self.standing()), "decisions chase each other");
        let here: Vec<ServerId> = self.members.present().collect();
        let (moves, records, is_saving) = self.standing();
        self.now += Duration::from_secs(4 + self.dice.roll(1000));
        self.act(|members, _, now, facts| members.tick(now, facts));
        let after = self.standing();
        assert_eq!(after.1, records, "something was decided because the master was stopped");
        assert!(self.members.present().eq(here) && moves.iter().all(|number| after.0.contains(number)));
        assert_eq!(after.2, is_saving);
    }

    fn restart_master(&mut self) {
        self.life += 1;
        self.members = self.journal.read().resume(self.settings.clone(), self.life, self.now);
        self.step_answers.2.clear();
        self.act(PsMembers::follow);
        let here = self.servers.iter().filter(|(_, server)| !server.is_cut_off);
        let ids: Vec<ServerId> = here.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.come_back(&id);
        }
        self.look();
        self.act(|members, _, _, facts| members.declare("model", facts).unwrap());
        self.sync();
    }

    fn save(&mut self) {
        let steps = self.journal.steps();
        let is_stepped = self.settings.mode == Mode::Sync;
        self.act(|members, _, now, facts| {
            members.write(steps.to_string(), Some(steps).filter(|_| is_stepped), now, facts);
        });
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(self.dice.roll(200));
        let ids: Vec<ServerId> = self.servers.keys().cloned().collect();
        let some = (!ids.is_empty()).then(|| ids[self.dice.roll(ids.len() as u64) as usize].clone());
        match (self.dice.roll(58), some) {
            (0..=8, Some(id)) => self.hear(&id),
            (9..=18, Some(id)) => self.push(&id),
            (19..=28, Some(id)) => self.copy(&id),
            (29..=32, _) => self.sync(),
            (33, Some(id)) if self.may_die(&id) => {
                // Sometimes the earlier life is only cut off, and goes on as if nothing had happened.
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
                if !self.wanted.leaving.remove(&id.name) && self.wanted.leaving.len() + 2 < ids.len() {
                    self.wanted.leaving.insert(id.name);
                }
                let here = ids.iter().filter(|id| !self.wanted.leaving.contains(&id.name)).count();
                self.wanted.expected = Some(here as u32);
                self.act(PsMembers::follow);
            }
            (37, _) => self.restart_master(),
            (38, _) => {
                self.act(|members, _, now, facts| members.begin_saving(now, facts));
            }
            (39..=40, _) => self.save(),
            (41..=45, Some(id)) => self.write(&id),
            (46, Some(id)) if self.servers[&id].is_cut_off => self.come_back(&id),
            (46, Some(id)) if self.may_die(&id) => self.cut_off(&id),
            (47..=48, Some(id)) if self.servers[&id].is_cut_off => self.come_back(&id),
            (47, Some(id)) => self.lose_backup(&id),
            (48, Some(id)) => self.fail_copy(&id),
            (49, Some(id)) => self.go_on_copying(&id),
            (50, _) => self.stop_master(),
            (51, _) if !self.one_at_a_time && self.dice.roll(4) == 0 => {
                // Somebody deletes a file.
                self.folder.pop_last();
            }
            (52, _) => self.act(|members, _, now, facts| members.keep_answers(now, facts)),
            _ => self.act(|members, _, now, facts| members.tick(now, facts)),
        }
    }

    fn may_die(&mut self, id: &ServerId) -> bool {
        let know = |sim: &Self| sim.servers.values().all(|server| server.map == *sim.members.map());
        let others = self.servers.len() > 2 && self.members.present().all(|server| self.servers.contains_key(&server));
        !self.one_at_a_time
            || (others && self.members.is_redundant() && know(self) && self.journal.is_durable())
                && self.servers.contains_key(id)
    }

    fn run(mut self) {
        for _ in 0..300 {
            self.step();
            self.check();
        }
        self.rest();
    }
}

fn play(seeds: std::ops::Range<u64>, mode: Mode) {
    for seed in seeds {
        let run = std::panic::catch_unwind(|| Simulation::new(seed, mode).run());
        assert!(run.is_ok(), "seed {seed} failed; the message is above");
    }
}

#[test]
fn no_answered_push_is_lost_and_none_is_applied_twice() {
    play(0..2000, Mode::Async);
}

#[test]
fn in_steps_everything_goes_back_together_and_no_step_is_lost() {
    play(0..2000, Mode::Sync);
}
