//! What servers do, and clients with them.

use super::*;

/// What a server keeps of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) origin: Origin,
    /// Pushes, or steps, in the order in which they were applied.
    pub(super) applied: Vec<u64>,
}

/// A server, and what it was told last.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    pub(super) map: Map,
    /// The map by which everything last went back, as far as it has heard.
    rewound: PsEpoch,
    orders: Vec<CopyOrder>,
    save: Option<SaveOrder>,
    /// The last checkpoint that it has written its part of: each order is carried out once.
    wrote: u64,
    latest: Option<u64>,
    pub(super) kept: BTreeMap<Partition, Kept>,
    /// Moves whose copy has caught up: it answers nobody before the copy has the same.
    synced: BTreeMap<Partition, (u64, ServerId)>,
    /// It has no session with the master.
    pub(super) is_cut_off: bool,
}

impl Server {
    /// Whether it takes something of a partition from the owner that this seat names: it has heard of the map by which
    /// that one is the owner, and of no other owner since.
    fn takes(&self, partition: Partition, seat: &Seat) -> bool {
        self.map.seat(partition).is_some_and(|known| known.owner == seat.owner && known.since == seat.since)
    }
}

/// What the master has told, all at once and only when it is durable.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) map: Map,
    pub(super) rewound: PsEpoch,
    pub(super) steps: u64,
    pub(super) orders: BTreeMap<ServerId, Vec<CopyOrder>>,
    pub(super) saves: BTreeMap<ServerId, SaveOrder>,
    /// The last checkpoint that the master knows of.
    pub(super) latest: Option<u64>,
}

impl Simulation {
    /// A server hears what was told last, and does it.
    pub(super) fn hear(&mut self, id: &ServerId) {
        let told = self.told.clone();
        let Some(server) = self.servers.get_mut(id) else { return };
        if server.is_cut_off || told.map.epoch < server.map.epoch {
            return;
        }
        (server.map, server.rewound, server.latest) = (told.map, told.rewound, told.latest);
        server.orders = told.orders.get(id).cloned().unwrap_or_default();
        server.save = told.saves.get(id).cloned();
        let orders = server.orders.clone();
        server.synced.retain(|partition, (number, _)| {
            orders.iter().any(|order| order.partition == *partition && order.number == *number)
        });
        let copied: BTreeSet<Partition> =
            told.orders.values().flatten().filter(|order| order.to == *id).map(|order| order.partition).collect();
        let mut begun = Vec::new();
        let mut unreadable: BTreeMap<u64, Vec<Partition>> = BTreeMap::new();
        for (partition, seat) in server.map.clone().iter() {
            if !seat.is_kept_by(id) {
                if !copied.contains(&partition) {
                    server.kept.remove(&partition);
                }
                continue;
            }
            if server.kept.get(&partition).is_some_and(|kept| kept.origin == seat.origin) {
                continue;
            }
            let applied = match seat.origin.source {
                Source::Initial => Vec::new(),
                Source::Checkpoint(number) if self.folder.contains(&number) => {
                    self.written[&number][&partition].clone()
                }
                Source::Checkpoint(number) => {
                    server.kept.remove(&partition);
                    unreadable.entry(number).or_default().push(partition);
                    continue;
                }
            };
            begun.push((partition, seat.origin.number, applied.len() as u64));
            server.kept.insert(partition, Kept { origin: seat.origin, applied });
        }
        for (number, partitions) in unreadable {
            self.report(id, |members, now, facts| members.unreadable(id, number, &partitions, "gone", now, facts));
        }
        self.report(id, |members, _, facts| {
            for (partition, origin, version) in begun {
                members.begun(partition, origin, version, facts);
            }
        });
    }

    /// A copy that a server was told to make.
    fn order(&mut self, id: &ServerId) -> Option<CopyOrder> {
        let orders = &self.servers.get(id)?.orders;
        orders.get(self.dice.roll(orders.len().max(1) as u64) as usize).cloned()
    }

    /// A server goes on with a copy it was told to make.
    pub(super) fn copy(&mut self, id: &ServerId) {
        let Some(CopyOrder { partition, number, to, freeze, .. }) = self.order(id) else { return };
        let server = &self.servers[id];
        let Some(seat) = server.map.seat(partition).filter(|seat| seat.owner.as_ref() == Some(id)) else { return };
        let Some(kept) = server.kept.get(&partition).filter(|kept| kept.origin == seat.origin).cloned() else { return };
        if server.synced.get(&partition).is_none_or(|(synced, _)| *synced != number) {
            if !self.servers.get(&to).is_some_and(|target| target.takes(partition, seat)) {
                return;
            }
            self.servers.get_mut(&to).unwrap().kept.insert(partition, kept);
            self.servers.get_mut(id).unwrap().synced.insert(partition, (number, to));
        }
        if !freeze {
            self.report(id, |members, now, facts| members.synced(id, partition, number, now, facts));
        } else if self.forward(id, partition) {
            self.report(id, |members, now, facts| members.frozen(id, partition, number, now, facts));
        }
    }

    /// A copy cannot be made.
    pub(super) fn fail_copy(&mut self, id: &ServerId) {
        if let Some(CopyOrder { partition, number, .. }) = self.order(id) {
            self.report(id, |members, now, facts| members.failed(id, partition, number, now, facts));
        }
    }

    /// A copy takes its time.
    pub(super) fn go_on_copying(&mut self, id: &ServerId) {
        if let Some(CopyOrder { partition, number, .. }) = self.order(id) {
            self.report(id, |members, now, _| members.copying(id, partition, number, now));
        }
    }

    /// A server cannot reach one that keeps copies of what it owns.
    pub(super) fn lose_backup(&mut self, id: &ServerId) {
        let first = Partition(self.dice.roll(u64::from(PARTITIONS)) as u32);
        let map = &self.servers[id].map;
        let seat = map.seat(first).filter(|seat| seat.owner.as_ref() == Some(id));
        let Some(backup) = seat.and_then(|seat| seat.backup.clone()) else { return };
        let is_there = |seat: &Seat| seat.owner.as_ref() == Some(id) && seat.backup.as_ref() == Some(&backup);
        let lost = map.iter().filter(|(partition, seat)| *partition >= first && is_there(seat));
        let lost: Vec<Partition> = lost.map(|(partition, _)| partition).collect();
        self.report(id, |members, now, facts| members.unreachable(id, &lost, &backup, now, facts));
    }

    /// A server writes what it was told to. What it could not say is said when it is back.
    pub(super) fn write(&mut self, id: &ServerId) {
        let Some(server) = self.servers.get(id).filter(|server| !server.is_cut_off) else { return };
        let Some(SaveOrder { number, steps, seal }) = server.save.clone() else { return };
        let latest = server.latest;
        if let Some(seal) = seal {
            assert!(!seal.parts.is_empty() && self.written[&number].len() == PARTITIONS as usize);
            self.folder.insert(number);
            self.delete_old(latest);
            self.report(id, |members, now, facts| members.sealed(id, number, now, facts));
            return;
        }
        if server.wrote >= number {
            return;
        }
        self.servers.get_mut(id).unwrap().wrote = number;
        let server = &self.servers[id];
        let mine = server.map.iter().filter(|(_, seat)| seat.owner.as_ref() == Some(id));
        let part = |(partition, seat): (Partition, &Seat)| {
            let kept = server.kept.get(&partition).filter(|kept| kept.origin == seat.origin)?;
            let is_of_it = |applied: &&u64| steps.is_none_or(|steps| **applied <= steps);
            let applied: Vec<u64> = kept.applied.iter().filter(is_of_it).copied().collect();
            steps.is_none_or(|steps| applied.len() as u64 == steps).then_some((partition, applied))
        };
        let Some(part) = mine.map(part).collect::<Option<Vec<_>>>() else {
            let cause = Cause::new(Reason::CheckpointFailed, "it is not there");
            return self.report(id, |members, now, facts| members.not_saved(number, cause, now, facts));
        };
        self.written.entry(number).or_default().extend(part);
        if self.dice.roll(2) == 0 {
            self.report(id, |members, _, _| members.held(id, number));
        }
        self.report(id, |members, now, facts| members.part_written(id, number, "part", now, facts));
    }

    /// All checkpoints are deleted but the last ones, and the one that the master knows of.
    fn delete_old(&mut self, known: Option<u64>) {
        let Some(keep) = self.settings.keep.filter(|keep| *keep > 0) else { return };
        let unknown = |number: &u64| known.is_some_and(|known| *number > known);
        if self.folder.iter().rev().skip(1).any(unknown) {
            return;
        }
        let old: Vec<u64> = self.folder.iter().rev().skip(keep).copied().collect();
        for number in old.into_iter().filter(|number| known.is_none_or(|known| *number < known)) {
            self.folder.remove(&number);
        }
    }

    /// Brings those who have to have the same as the owner to where it is; whether all are there.
    fn forward(&mut self, id: &ServerId, partition: Partition) -> bool {
        let server = &self.servers[id];
        let kept = server.kept[&partition].clone();
        let Some(seat) = server.map.seat(partition).cloned() else { return false };
        let synced = server.synced.get(&partition).map(|(_, to)| to.clone());
        let followers: BTreeSet<ServerId> = seat.backup.clone().into_iter().chain(synced).collect();
        for follower in followers {
            let other = self.servers.get_mut(&follower).filter(|other| other.takes(partition, &seat));
            let Some(other) = other else { return false };
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

    /// A client pushes: to whoever it believes to be the owner, or in steps to all of them.
    pub(super) fn push(&mut self, id: &ServerId) {
        match self.settings.mode {
            Mode::Async => {
                let partition = Partition(self.dice.roll(u64::from(PARTITIONS)) as u32);
                // Sometimes what was pushed before and perhaps not answered.
                let again = self.dice.roll(4) == 0;
                let push = if again { self.pushes.saturating_sub(self.dice.roll(4)) } else { self.pushes + 1 };
                self.apply(id, partition, push);
            }
            Mode::Sync => self.push_step(),
        }
    }

    /// The gradients of the next step, to all who own something. What is answered by all is taken.
    fn push_step(&mut self) {
        let (rewound, step) = (self.told.rewound, self.told.steps + 1);
        if (self.step_answers.0, self.step_answers.1) != (rewound, step) {
            self.step_answers = (rewound, step, BTreeSet::new());
        }
        for (partition, seat) in self.told.map.clone().iter() {
            let Some(owner) = &seat.owner else { continue };
            let has_gone_back = self.servers.get(owner).is_some_and(|server| server.rewound == rewound);
            if self.dice.roll(8) > 0 && has_gone_back && self.apply(owner, partition, step) {
                self.step_answers.2.insert(partition);
            }
        }
        // What was learnt before everything went back counts no more; nor does what the master has decided already.
        let is_next = self.members.rewound() == rewound && self.journal.steps() + 1 == step;
        if is_next && self.step_answers.2.len() == PARTITIONS as usize {
            self.journal.take_step();
        }
    }

    /// Whether a server takes a push and answers for it.
    fn apply(&mut self, id: &ServerId, partition: Partition, push: u64) -> bool {
        let Some(server) = self.servers.get_mut(id) else { return false };
        let seat = server.map.seat(partition).filter(|seat| seat.owner.as_ref() == Some(id));
        let frozen = server.orders.iter().any(|order| order.partition == partition && order.freeze);
        let Some(origin) = seat.map(|seat| seat.origin).filter(|_| !frozen) else { return false };
        // One that is still being read is not here.
        let Some(kept) = server.kept.get_mut(&partition).filter(|kept| kept.origin == origin) else { return false };
        if !kept.applied.contains(&push) {
            if self.settings.mode == Mode::Sync && kept.applied.last().copied().unwrap_or(0) + 1 != push {
                return false;
            }
            kept.applied.push(push);
        }
        self.pushes = self.pushes.max(push);
        let version = kept.applied.len() as u64;
        let is_answered = self.forward(id, partition);
        if is_answered {
            self.answered.entry(partition).or_default().insert((origin, push));
            self.act(|members, _, _, facts| members.answered(partition, origin.number, version, facts));
        }
        is_answered
    }
}
