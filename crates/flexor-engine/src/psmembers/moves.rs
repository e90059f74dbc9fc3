//! How a partition gets to another server while training goes on.
//!
//! Copy, and forward what is applied meanwhile; when the copy has caught up it is either the backup from now on, or the
//! owner freezes, the map is changed, and the copy is the original. Until the map is changed every failure rolls back:
//! the move is forgotten, the owner hears so in its orders and goes on. Moves are not in the journal for that reason: a
//! master that is started again has begun none.
//!
//! Partitions that get another owner do so as a group: those under way wait for each other, freeze together and are in
//! one map. A batch has something for nearly every partition, so that training stands still whether one is frozen or
//! sixteen; together they cost one such pause, one after the other sixteen.
//!
//! What should be kept twice and is kept once comes before everything else: nobody gets another owner meanwhile.

use std::time::Duration;

use flexor_model::Reason;

use super::balance::{self, Aim};
use super::fact::Fact;
use super::map::{Partition, Seat};
use super::server::ServerId;
use super::{Cause, PsMembers};

/// How many partitions are under way at a time: what is copied at once is held twice.
const AT_ONCE: usize = 16;
/// How long an owner has to stop and to say so.
const FREEZE_LIMIT: Duration = Duration::from_secs(2);
/// How long a partition stays where it is after a move of it failed.
const REST: Duration = Duration::from_millis(500);

/// A partition on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    /// Reports that carry another are about another.
    pub(super) number: u64,
    pub(super) from: ServerId,
    pub(super) to: ServerId,
    pub(super) becomes: Becomes,
    pub(super) phase: Phase,
    /// When it last made progress.
    pub(super) since: Duration,
}

/// What the copy will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    Owner,
    Backup,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The owner copies, and forwards what it applies.
    Copying,
    /// The copy has all that the owner has told anybody, and goes on to. It waits for the others of its group.
    Synced,
    /// The owner is asked to stop.
    Freezing,
    /// It has stopped, and both are the same.
    Frozen,
}

impl PsMembers {
    /// A copy is being made, and something of it has arrived.
    pub fn copying(&mut self, from: &ServerId, partition: Partition, number: u64, now: Duration) {
        self.clock.advance(now);
        let now = self.clock.now();
        if let Some(step) = self.own_move(from, partition, number) {
            step.since = now;
            self.moves_get_on();
        }
    }

    /// The copy has caught up: from now on the owner answers nobody before the copy has the same.
    pub fn synced(&mut self, from: &ServerId, partition: Partition, number: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let now = self.clock.now();
        if let Some(step) = self.own_move(from, partition, number)
            && step.phase == Phase::Copying
        {
            (step.phase, step.since) = (Phase::Synced, now);
        }
        self.settle(facts);
    }

    /// The owner has stopped, and the copy has everything.
    pub fn frozen(&mut self, from: &ServerId, partition: Partition, number: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if let Some(step) = self.own_move(from, partition, number)
            && step.phase == Phase::Freezing
        {
            step.phase = Phase::Frozen;
        }
        self.settle(facts);
    }

    /// The owner cannot make the copy.
    pub fn failed(&mut self, from: &ServerId, partition: Partition, number: u64, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        if self.own_move(from, partition, number).is_some() {
            self.give_up(partition);
        }
        self.settle(facts);
    }

    /// Where every partition should be, given that what is under way arrives; nothing while there is no server.
    pub(super) fn aims(&self) -> Vec<Aim> {
        let servers = self.lasting();
        if servers.is_empty() {
            return Vec::new();
        }
        let mut prospect = self.map.clone();
        for (partition, step) in &self.moves {
            if let Some(seat) = prospect.seat_mut(*partition) {
                *seat = step.done(seat, self.settings.copies);
            }
        }
        balance::aims(&prospect, &servers, self.settings.copies)
    }

    /// The group of those that get another owner.
    fn new_owners(&self) -> impl Iterator<Item = &Move> {
        self.moves.values().filter(|step| step.becomes == Becomes::Owner)
    }

    fn own_move(&mut self, from: &ServerId, partition: Partition, number: u64) -> Option<&mut Move> {
        self.moves.get_mut(&partition).filter(|step| step.number == number && step.from == *from)
    }

    fn give_up(&mut self, partition: Partition) {
        self.moves.remove(&partition);
        self.resting.insert(partition, self.clock.now() + REST);
    }

    /// Forgets moves that cannot be finished, or that nobody wants any more.
    ///
    /// A copy that is begun is made even if it would go elsewhere by now, so that a job comes to rest: as what is under way
    /// counts as done, each that is begun fills a gap or makes the spread more even, and so does each that is given up
    /// because it is well where it is.
    pub(super) fn roll_back(&mut self) {
        let (aims, lasting) = (self.aims(), self.lasting());
        let mut stuck = Vec::new();
        let (now, copy_limit) = (self.clock.now(), self.settings.copy_limit);
        let (map, present) = (&self.map, &self.present);
        self.moves.retain(|partition, step| {
            let limit = match step.phase {
                Phase::Copying => Some(copy_limit),
                Phase::Freezing => Some(FREEZE_LIMIT),
                // They wait for others, who have limits.
                Phase::Synced | Phase::Frozen => None,
            };
            if limit.is_some_and(|limit| now >= step.since + limit) {
                stuck.push(*partition);
                return false;
            }
            let (Some(seat), Some(aim)) = (map.seat(*partition), aims.get(partition.0 as usize)) else { return false };
            let owns = seat.owner.as_ref() == Some(&step.from);
            let is_present = |server: &ServerId| {
                let here = present.get(&server.name).filter(|here| here.incarnation == server.incarnation);
                here.is_some_and(|here| here.away_until.is_none())
            };
            // One that is away may be gone: nothing is given to it before it is back. Nor does anybody wait for what it
            // has begun to send; what has all of it takes over when it does not come back.
            let is_here = is_present(&step.to) && (step.phase != Phase::Copying || is_present(&step.from));
            let is_wanted = match step.becomes {
                Becomes::Owner => aim.owner == step.to,
                Becomes::Backup => {
                    let is_kept = seat.backup.is_some() && (seat.backup == aim.backup || seat.is_kept_by(&step.to));
                    lasting.contains(&step.to) && !is_kept
                }
            };
            owns && is_here && is_wanted
        });
        for partition in stuck {
            self.resting.insert(partition, self.clock.now() + REST);
        }
    }

    /// Begins what brings the map nearer to how it should be.
    pub(super) fn begin_moves(&mut self) {
        if self.saving.is_some() {
            return;
        }
        self.resting.retain(|_, until| *until > self.clock.now());
        let aims = self.aims();
        let mut places: Vec<_> = (0..).map(Partition).zip(self.map.seats.iter().zip(&aims)).collect();
        // What is kept once only comes first.
        places.sort_by_key(|(_, (seat, _))| seat.backup.is_some());
        // A group that waits for its last copies gets no new members.
        let is_closed = self.new_owners().any(|step| step.phase != Phase::Copying);
        let is_kept_once = |partition: &Partition| self.map.seat(*partition).is_some_and(|seat| seat.backup.is_none());
        let is_first_copy =
            |(partition, step): (&Partition, &Move)| step.becomes == Becomes::Backup && is_kept_once(partition);
        let mut has_first_copies = self.moves.iter().any(is_first_copy);
        let mut begun = Vec::new();
        for (partition, (seat, aim)) in places {
            if self.moves.len() + begun.len() >= AT_ONCE {
                break;
            }
            let busy = self.moves.contains_key(&partition) || self.resting.contains_key(&partition);
            if let Some(step) = next_step(seat, aim).filter(|_| !busy)
                && !((is_closed || has_first_copies) && step.2 == Becomes::Owner)
                && self.is_here(&step.0)
                && self.is_here(&step.1)
            {
                has_first_copies |= step.2 == Becomes::Backup && seat.backup.is_none();
                begun.push((partition, step));
            }
        }
        for (partition, (from, to, becomes, phase)) in begun {
            self.last_move += 1;
            let number = self.last_move;
            self.moves.insert(partition, Move { number, from, to, becomes, phase, since: self.clock.now() });
        }
    }

    /// Gives up copies with servers that are to leave, where nobody else can keep them and their owner is well. After a
    /// restart of the master it is not known for a while who else there is.
    pub(super) fn let_go(&mut self, facts: &mut Vec<Fact>) {
        if self.clock.now() < self.all_known_at {
            return;
        }
        let aims = self.aims();
        let leaves = |seat: &Seat| {
            let is_well = seat.owner.as_ref().is_some_and(|owner| self.is_here(owner));
            is_well && seat.backup.as_ref().is_some_and(|backup| self.is_leaving(&backup.name))
        };
        let nobody = |partition: Partition| aims.get(partition.0 as usize).is_some_and(|aim| aim.backup.is_none());
        let is_idle = |partition: Partition| !self.moves.contains_key(&partition);
        let seats =
            self.map.iter().filter(|(partition, seat)| leaves(seat) && nobody(*partition) && is_idle(*partition));
        let seats: Vec<_> = seats.map(|(partition, seat)| (partition, Seat { backup: None, ..seat.clone() })).collect();
        if !seats.is_empty() {
            let detail = format!(
                "{} copies are given up: the server that has them is to leave, and no other is there",
                seats.len()
            );
            self.map_anew(seats, Cause::new(Reason::PartitionsMoved, detail), facts);
        }
    }

    /// Takes the next step of every move that is ready for it; those that end give a new map. Whether any did.
    pub(super) fn finish_moves(&mut self, facts: &mut Vec<Fact>) -> bool {
        let now = self.clock.now();
        let has_all_copies = self.new_owners().all(|step| step.phase != Phase::Copying);
        let has_stopped = self.new_owners().all(|step| step.phase == Phase::Frozen);
        let mut seats = Vec::new();
        for (partition, step) in &mut self.moves {
            let Some(seat) = self.map.seat(*partition) else { continue };
            let is_done = match (step.becomes, step.phase) {
                (Becomes::Owner, Phase::Synced) if has_all_copies => {
                    (step.phase, step.since) = (Phase::Freezing, now);
                    false
                }
                (Becomes::Owner, phase) => phase == Phase::Frozen && has_stopped,
                (Becomes::Backup, phase) => phase == Phase::Synced,
            };
            if is_done {
                seats.push((*partition, step.done(seat, self.settings.copies)));
            }
        }
        if seats.is_empty() {
            return false;
        }
        for (partition, _) in &seats {
            self.moves.remove(partition);
        }
        let cause = Cause::new(Reason::PartitionsMoved, format!("{} partitions are where they should be", seats.len()));
        self.map_anew(seats, cause, facts);
        true
    }
}

impl Move {
    /// The seat when the move is done.
    fn done(&self, seat: &Seat, copies: u32) -> Seat {
        match self.becomes {
            Becomes::Backup => Seat { backup: Some(self.to.clone()), ..seat.clone() },
            Becomes::Owner => {
                let backup = seat.backup_beside(&self.to).filter(|_| copies > 1).cloned();
                Seat { owner: Some(self.to.clone()), backup, ..seat.clone() }
            }
        }
    }
}

/// The first thing to do for a seat that is not as it should be.
fn next_step(seat: &Seat, aim: &Aim) -> Option<(ServerId, ServerId, Becomes, Phase)> {
    let owner = seat.owner.clone()?;
    let from_backup =
        |server: &ServerId| if seat.backup.as_ref() == Some(server) { Phase::Synced } else { Phase::Copying };
    if owner != aim.owner && seat.backup.is_none() && aim.backup.is_some() {
        // Kept twice first of all; then the copy is there, and need only become the owner.
        return Some((owner, aim.owner.clone(), Becomes::Backup, Phase::Copying));
    }
    if owner != aim.owner {
        let phase = from_backup(&aim.owner);
        return Some((owner, aim.owner.clone(), Becomes::Owner, phase));
    }
    let backup = aim.backup.as_ref().filter(|backup| seat.backup.as_ref() != Some(*backup))?;
    Some((owner, backup.clone(), Becomes::Backup, Phase::Copying))
}
