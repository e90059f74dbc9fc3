//! Checkpoints: nothing is moved while every server writes what it answers for, and one of them seals it.
//!
//! A checkpoint that was begun and not sealed is none, and its number is never used again. A server that is lost
//! meanwhile ends the attempt: what it was to write is somebody else's now.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{PsEpoch, Reason};
use serde::{Deserialize, Serialize};

use super::fact::Fact;
use super::map::{Origin, Partition, Seat, Source};
use super::server::ServerId;
use super::{Cause, Mode, PsMembers};

/// How long moves that are under way may make no progress, before the attempt is given up.
const STILL_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may write without having written anything. However much it has to write, it says so as it goes.
const WRITE_LIMIT: Duration = Duration::from_secs(120);

/// A checkpoint that is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number.
    pub number: u64,
    /// Where the data stood when it was begun, as the ledger writes it.
    pub ledger: Arc<str>,
}

/// A checkpoint on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saving {
    number: u64,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// What is being moved arrives first; when some of it last did.
    Stilling { since: Duration },
    /// Every server writes what it answers for by this map.
    Writing {
        map: PsEpoch,
        ledger: Arc<str>,
        /// After how many steps it is, where training goes in steps.
        steps: Option<u64>,
        /// Those that have not written all of it, and when each of them last had written some.
        left: BTreeMap<ServerId, Duration>,
        unheld: BTreeSet<ServerId>,
        parts: Vec<Arc<str>>,
    },
    /// All is written; one of them says so in the manifest.
    Sealing { by: ServerId, ledger: Arc<str>, parts: Vec<Arc<str>>, since: Duration },
}

/// What a server has to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveOrder {
    /// Of which checkpoint.
    pub number: u64,
    /// What is written is as it is after so many steps, where training goes in steps.
    pub steps: Option<u64>,
    /// Set: all parts are written, and the manifest is to be.
    pub seal: Option<Seal>,
}

/// What goes into a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Where the data stood.
    pub ledger: Arc<str>,
    /// What each server has written, in its own words.
    pub parts: Vec<Arc<str>>,
}

impl PsMembers {
    /// What the folder for checkpoints has in it, as a server has found: the latest one that is whole with the model that
    /// it is of, and the highest number that was ever used. A job that has not begun begins with it.
    pub fn found(&mut self, latest: Option<(Checkpoint, &str)>, highest: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.has_looked {
            return;
        }
        self.has_looked = true;
        if highest > self.last_save {
            self.decide(Fact::Saving { checkpoint: highest }, facts);
        }
        let is_new = self.map.epoch.0 == 0 && self.model.is_none() && self.checkpoints.is_empty();
        if let Some((Checkpoint { number, ledger }, model)) = latest.filter(|_| is_new) {
            self.decide(Fact::Declared { model: model.into() }, facts);
            self.decide(self.saved(number, ledger), facts);
        }
        self.settle(facts);
    }

    /// Whether somebody has to look what there is before anything begins.
    pub fn has_to_look(&self) -> bool {
        self.settings.keep.is_some() && !self.has_looked && self.map.epoch.0 == 0
    }

    /// Begins a checkpoint, if it can be: nothing new is moved from now on. Whether it is begun: one that is on its way
    /// stays the only one.
    pub fn begin_saving(&mut self, now: Duration, facts: &mut Vec<Fact>) -> bool {
        self.clock.advance(now);
        let can_be = self.model.is_some() && !self.map.seats.is_empty() && self.unowned() == 0;
        let begins = self.saving.is_none() && can_be;
        if begins {
            let number = self.last_save + 1;
            self.decide(Fact::Saving { checkpoint: number }, facts);
            self.saving = Some(Saving { number, phase: Phase::Stilling { since: self.clock.now() } });
            self.settle(facts);
        }
        begins
    }

    /// Whether a checkpoint is on its way.
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Whether everything holds still for a checkpoint, and where the data stands is asked for.
    pub fn is_still(&self) -> bool {
        let stilling = self.saving.as_ref().is_some_and(|saving| matches!(saving.phase, Phase::Stilling { .. }));
        let is_here = |seat: &Seat| seat.owner.as_ref().is_some_and(|owner| self.is_here(owner));
        stilling && self.moves.is_empty() && self.map.seats.iter().all(is_here)
    }

    /// The data stands here, after so many steps where training goes in steps: servers may write.
    pub fn write(&mut self, ledger: impl Into<Arc<str>>, steps: Option<u64>, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if !self.is_still() {
            return;
        }
        let (map, unheld, now) = (self.map.epoch, self.owners(), self.clock.now());
        if let Some(saving) = &mut self.saving {
            let ledger = ledger.into();
            let left = unheld.iter().map(|server| (server.clone(), now)).collect();
            saving.phase = Phase::Writing { map, ledger, steps, left, unheld, parts: Vec::new() };
        }
        self.settle(facts);
    }

    /// What is being moved gets on, and a checkpoint waits for it.
    pub(super) fn moves_get_on(&mut self) {
        if let Some(Saving { phase: Phase::Stilling { since }, .. }) = &mut self.saving {
            *since = self.clock.now();
        }
    }

    /// A server has written some of its part.
    pub fn writing(&mut self, server: &ServerId, number: u64, now: Duration) {
        self.clock.advance(now);
        if let Some(Saving { number: own, phase: Phase::Writing { left, .. } }) = &mut self.saving
            && *own == number
            && let Some(heard) = left.get_mut(server)
        {
            *heard = self.clock.now();
        }
    }

    /// A server has written its part.
    pub fn part_written(
        &mut self,
        server: &ServerId,
        number: u64,
        part: impl Into<Arc<str>>,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        if let Some(Saving { number: own, phase }) = &mut self.saving
            && *own == number
            && let Phase::Writing { ledger, left, unheld, parts, .. } = phase
            && left.remove(server).is_some()
        {
            unheld.remove(server);
            parts.push(part.into());
            if left.is_empty() {
                let (ledger, parts) = (Arc::clone(ledger), std::mem::take(parts));
                *phase = Phase::Sealing { by: server.clone(), ledger, parts, since: self.clock.now() };
            }
        }
        self.settle(facts);
    }

    /// A server holds the moment that it is to write: what is changed from now on is not written.
    pub fn held(&mut self, server: &ServerId, number: u64) {
        if let Some(Saving { number: own, phase: Phase::Writing { unheld, .. } }) = &mut self.saving
            && *own == number
        {
            unheld.remove(server);
        }
    }

    /// The step of the moment that is to be written, while not all hold it: no further one may be taken meanwhile.
    pub fn held_at(&self) -> Option<u64> {
        match &self.saving.as_ref()?.phase {
            Phase::Writing { unheld, steps, .. } => steps.filter(|_| !unheld.is_empty()),
            Phase::Stilling { .. } | Phase::Sealing { .. } => None,
        }
    }

    /// The manifest is written: there is a checkpoint.
    pub fn sealed(&mut self, server: &ServerId, number: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if let Some(Saving { number: own, phase: Phase::Sealing { by, ledger, .. } }) = &self.saving
            && *own == number
            && by == server
        {
            let ledger = Arc::clone(ledger);
            self.saving = None;
            self.unsaved = None;
            self.decide(self.saved(number, ledger), facts);
        }
        self.settle(facts);
    }

    /// A server cannot write what it should.
    pub fn not_saved(&mut self, number: u64, cause: Cause, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.saving.as_ref().is_some_and(|saving| saving.number == number) {
            self.give_up_saving(cause);
        }
        self.settle(facts);
    }

    /// A checkpoint is damaged, as a server says that has to begin partitions with it: they begin with the one before.
    pub fn unreadable(
        &mut self,
        server: &ServerId,
        number: u64,
        partitions: &[Partition],
        why: &str,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let cause = Cause::new(Reason::CheckpointDamaged, format!("checkpoint {number} cannot be read: {why}"));
        if self.checkpoints.iter().any(|known| known.number == number) {
            self.decide(Fact::Spoiled { checkpoint: number, cause: cause.clone() }, facts);
        }
        let is_of_it = |seat: &Seat| seat.origin.source == Source::Checkpoint(number);
        let seats = partitions.iter().filter_map(|partition| Some((*partition, self.map.seat(*partition)?)));
        let seats: Vec<(Partition, Seat)> = seats
            .filter(|(_, seat)| is_of_it(seat) && seat.is_kept_by(server))
            .map(|(partition, seat)| match seat.owner.as_ref() == Some(server) {
                // Nobody else has anything that it could have had.
                true => (partition, Seat { owner: None, backup: None, ..seat.clone() }),
                false => (partition, Seat { backup: None, ..seat.clone() }),
            })
            .collect();
        if !seats.is_empty() {
            let is_lost = seats.iter().any(|(_, seat)| seat.owner.is_none());
            self.map_anew(seats, cause, facts);
            if is_lost {
                self.orphaned_at = Some(self.orphaned_at.unwrap_or(self.clock.now()));
            }
        }
        self.settle(facts);
    }

    /// A server that has to begin partitions with a checkpoint does not get at it, each named with its beginning, and does
    /// not try any more. Nobody knows that anything is wrong with the checkpoint: who keeps a copy goes on alone, and what
    /// has none begins elsewhere, or here once more where there is nobody else.
    pub fn not_read(
        &mut self,
        server: &ServerId,
        number: u64,
        partitions: &[(Partition, u64)],
        why: &str,
        now: Duration,
        facts: &mut Vec<Fact>,
    ) {
        self.clock.advance(now);
        let here = self.usable();
        let place = here.iter().position(|one| one == server).map_or(0, |place| place + 1);
        let next = here.get(place).or(here.first()).unwrap_or(server);
        let source = Source::Checkpoint(number);
        let seats = partitions.iter().filter_map(|(partition, origin)| {
            let seat = self.map.seat(*partition)?;
            let is_meant = seat.origin == Origin { number: *origin, source } && seat.is_kept_by(server);
            let backup = seat.backup.clone().filter(|backup| self.is_here(backup));
            let seat = match (seat.owner.as_ref() == Some(server), backup) {
                (false, _) => Seat { backup: None, ..seat.clone() },
                // Both have begun with the same, and the owner has changed nothing.
                (true, Some(backup)) => Seat { owner: Some(backup), backup: None, ..seat.clone() },
                (true, None) => {
                    let origin = Origin { number: origin + 1, source };
                    Seat { owner: Some(next.clone()), backup: None, origin, ..seat.clone() }
                }
            };
            is_meant.then_some((*partition, seat))
        });
        let seats: Vec<(Partition, Seat)> = seats.collect();
        if !seats.is_empty() {
            let detail = format!("checkpoint {number} cannot be read by {server}, and is read again: {why}");
            self.map_anew(seats, Cause::new(Reason::CheckpointUnread, detail), facts);
        }
        self.settle(facts);
    }

    /// What a server has to write.
    pub fn save_order(&self, server: &ServerId) -> Option<SaveOrder> {
        let saving = self.saving.as_ref()?;
        let number = saving.number;
        match &saving.phase {
            Phase::Writing { left, steps, .. } if left.contains_key(server) => {
                Some(SaveOrder { number, steps: *steps, seal: None })
            }
            Phase::Sealing { by, ledger, parts, .. } if by == server => {
                let seal = Seal { ledger: Arc::clone(ledger), parts: parts.clone() };
                Some(SaveOrder { number, steps: None, seal: Some(seal) })
            }
            Phase::Stilling { .. } | Phase::Writing { .. } | Phase::Sealing { .. } => None,
        }
    }

    /// The checkpoints that are complete and can be read, as far as is known; the latest last.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// Why the last attempt failed, if it did.
    pub fn unsaved(&self) -> Option<&Cause> {
        self.unsaved.as_ref()
    }

    /// Gives an attempt up that cannot come to its end.
    pub(super) fn look_after_saving(&mut self) {
        let Some(saving) = &self.saving else { return };
        let changed = || "the servers changed while it was written".to_owned();
        let is_late = |since: Duration, limit: Duration| self.clock.now() >= since + limit;
        let failure = match &saving.phase {
            Phase::Stilling { since } => {
                is_late(*since, STILL_LIMIT).then(|| "what was being moved took too long".to_owned())
            }
            Phase::Writing { map, .. } if *map != self.map.epoch => Some(changed()),
            Phase::Writing { left, .. } => {
                let late = left.iter().find(|(_, heard)| is_late(**heard, WRITE_LIMIT));
                late.map(|(server, _)| format!("{server} has written nothing for {} s", WRITE_LIMIT.as_secs()))
            }
            Phase::Sealing { by, .. } if !self.knows(by) => Some(changed()),
            Phase::Sealing { by, since, .. } => {
                is_late(*since, WRITE_LIMIT).then(|| format!("{by} has not sealed it for {} s", WRITE_LIMIT.as_secs()))
            }
        };
        if let Some(why) = failure {
            self.give_up_saving(Cause::new(Reason::CheckpointFailed, why));
        }
    }

    fn saved(&self, checkpoint: u64, ledger: Arc<str>) -> Fact {
        let before = self.checkpoints.iter().map(|known| known.number);
        let kept =
            before.chain([checkpoint]).rev().take(self.settings.keep.filter(|keep| *keep > 0).unwrap_or(usize::MAX));
        Fact::Saved { checkpoint, ledger, oldest: kept.last().unwrap_or(checkpoint) }
    }

    pub(super) fn apply_saved(&mut self, checkpoint: u64, ledger: &Arc<str>, oldest: u64) {
        self.last_save = self.last_save.max(checkpoint);
        self.checkpoints.push(Checkpoint { number: checkpoint, ledger: Arc::clone(ledger) });
        self.checkpoints.retain(|known| known.number >= oldest);
    }

    /// Forgets all but the last ones. Servers keep as many that differ, and delete those that are the same as a later one.
    pub(super) fn forget_old_checkpoints(&mut self) {
        let keep = self.settings.keep.unwrap_or(0);
        if keep > 0 && self.checkpoints.len() > keep {
            self.checkpoints.drain(..self.checkpoints.len() - keep);
        }
    }

    /// What partitions that are lost begin with.
    pub(super) fn source(&self) -> Source {
        self.checkpoints.last().map_or(Source::Initial, |latest| Source::Checkpoint(latest.number))
    }

    /// All partitions begin again together, where they are not independent of one another.
    pub(super) fn rewinds(&self) -> bool {
        self.settings.mode == Mode::Sync
    }

    /// The next beginning of a seat.
    pub(super) fn next_origin(&self, seat: &Seat) -> Origin {
        Origin { number: seat.origin.number + 1, source: self.source() }
    }

    fn give_up_saving(&mut self, cause: Cause) {
        self.saving = None;
        self.unsaved = Some(cause);
    }

    fn owners(&self) -> BTreeSet<ServerId> {
        self.map.seats.iter().filter_map(|seat| seat.owner.clone()).collect()
    }

    pub(super) fn unowned(&self) -> usize {
        self.map.seats.iter().filter(|seat| seat.owner.is_none()).count()
    }
}
