//! The planner's working copy of the cluster, which its stages change step by step.
//!
//! Everything that a stage does is a [`State::place`] or a [`State::end`]; both keep ledger, sizes and indexes in step,
//! and both can be taken back. Decisions are read off at the end: a pod that one stage created and a later one ended
//! again appears nowhere.

use std::collections::{BTreeMap, BTreeSet};

use flexor_model::{RoleName, UnixTime};

use crate::amounts::Units;
use crate::classes::Classes;
use crate::index::{ClassIx, GroupIx, NodeIx};
use crate::ledger::{Ledger, Tier};
use crate::{JobKey, NodeName};

#[derive(Debug)]
pub(crate) struct State {
    pub units: Units,
    pub nodes: Vec<NodeName>,
    pub ledger: Ledger,
    pub classes: Classes,
    /// By key.
    pub jobs: Vec<JobRow>,
    /// Positions in `jobs` by priority, age and key.
    pub order: Vec<usize>,
    pub groups: Vec<Group>,
    /// Surplus pods by node.
    pub surplus_on: Vec<Vec<PodRef>>,
    /// Room of each node if all surplus were gone.
    pub potential: Vec<Box<[i64]>>,
    /// Promises that are not redeemed yet.
    pub promised: BTreeSet<PodRef>,
    /// Pods that have to end.
    pub ended: Vec<Ended>,
    /// [`Ledger::free_share`] of each node.
    free_share: Vec<i64>,
    /// Counts committed changes to base pods: what failed before fails again while it stands still.
    pub commits: u64,
}

#[derive(Debug)]
pub(crate) struct JobRow {
    pub key: JobKey,
    pub priority: i32,
    pub created: UnixTime,
    pub groups: std::ops::Range<usize>,
    pub growth_paused: bool,
}

/// A role of a job.
#[derive(Debug)]
pub(crate) struct Group {
    /// Position in [`State::jobs`].
    pub job: usize,
    pub name: RoleName,
    pub min: u32,
    pub max: u32,
    pub class: ClassIx,
    /// The size that the driver wrote last.
    pub target: u32,
    pub finished: BTreeSet<u32>,
    /// Pods and promises by rank, without pods that are ending.
    pub pods: BTreeMap<u32, Slot>,
    /// Ranks whose pod is ending. They cannot be used until it is gone.
    pub draining: BTreeSet<u32>,
    /// Pods and promises of ranks from `min` on.
    pub surplus: u32,
}

/// A pod, by its role and rank.
pub(crate) type PodRef = (GroupIx, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub node: NodeIx,
    pub phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It runs, or will start on its node.
    Bound,
    /// It exists and waits to be bound to its node.
    Assigned,
    /// This plan creates it.
    Created(Origin),
    /// It is to be created when its room is free.
    Promised,
}

/// Why this plan creates a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Its job starts, or gets back what it lost of its base.
    Base,
    /// There was free room.
    Growth,
    /// Another job gave up a pod for it.
    Swap,
}

/// A pod or a promise that was taken from its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub pod: PodRef,
    pub slot: Slot,
    pub cause: EndCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndCause {
    /// The job at this position needs its room for its base.
    RoomFor(usize),
    /// The job at this position is further below its share.
    SwapTo(usize),
    /// The role has more pods than its maximum.
    AboveMax,
    /// It did not start in time.
    NotStarted,
    /// Its node is gone, closed or full.
    PlaceGone,
}

impl Group {
    pub(crate) fn span(&self) -> u32 {
        self.max - self.min
    }

    pub(crate) fn is_base(&self, rank: u32) -> bool {
        rank < self.min
    }

    fn tier(&self, rank: u32) -> Tier {
        if self.is_base(rank) { Tier::Base } else { Tier::Surplus }
    }

    /// Base ranks that have neither a pod nor a promise.
    pub(crate) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.min).filter(|rank| !self.pods.contains_key(rank) && !self.finished.contains(rank))
    }

    /// The lowest rank for another surplus pod, from this one on.
    pub(crate) fn free_rank(&self, from: u32) -> Option<u32> {
        let taken = |r: &u32| self.pods.contains_key(r) || self.draining.contains(r) || self.finished.contains(r);
        (from.max(self.min)..self.max).find(|rank| !taken(rank))
    }

    /// Ranks whose pod exists, is created by this plan, or has finished.
    pub(crate) fn size(&self) -> u32 {
        let there = self.pods.values().filter(|slot| slot.phase != Phase::Promised).count();
        let finished = self.finished.range(..self.max).filter(|rank| !self.pods.contains_key(rank)).count();
        u32::try_from(there + finished).unwrap_or(u32::MAX)
    }

    fn base_is_there(&self) -> bool {
        let there = self.pods.range(..self.min).filter(|(_, slot)| slot.phase != Phase::Promised).count();
        let finished = self.finished.range(..self.min).filter(|rank| !self.pods.contains_key(rank)).count();
        there + finished >= self.min as usize
    }
}

impl State {
    pub(crate) fn new(units: Units, nodes: Vec<NodeName>, ledger: Ledger, classes: Classes) -> Self {
        let count = nodes.len();
        Self {
            units,
            nodes,
            classes,
            jobs: Vec::new(),
            order: Vec::new(),
            groups: Vec::new(),
            surplus_on: vec![Vec::new(); count],
            potential: NodeIx::all(count).map(|node| ledger.after(node).into()).collect(),
            promised: BTreeSet::new(),
            ended: Vec::new(),
            free_share: NodeIx::all(count).map(|node| ledger.free_share(node)).collect(),
            commits: 0,
            ledger,
        }
    }

    pub(crate) fn group(&self, group: GroupIx) -> &Group {
        &self.groups[group.get()]
    }

    pub(crate) fn need(&self, group: GroupIx) -> &[i64] {
        &self.classes.get(self.group(group).class).need
    }

    pub(crate) fn groups_of(&self, job: usize) -> impl Iterator<Item = GroupIx> + use<> {
        self.jobs[job].groups.clone().map(GroupIx::at)
    }

    pub(crate) fn free_share(&self, node: NodeIx) -> i64 {
        self.free_share[node.get()]
    }

    /// Whether every base pod of the job exists or is created by this plan.
    pub(crate) fn base_is_there(&self, job: usize) -> bool {
        self.groups_of(job).all(|group| self.group(group).base_is_there())
    }

    /// Whether every base pod of the job exists or is promised.
    pub(crate) fn is_starting(&self, job: usize) -> bool {
        self.groups_of(job).all(|group| self.group(group).missing().next().is_none())
    }

    /// The elastic groups that take part in equal fulfilment.
    pub(crate) fn sharing(&self) -> Vec<GroupIx> {
        let open = |job: &usize| !self.jobs[*job].growth_paused && self.base_is_there(*job);
        let groups = (0..self.jobs.len()).filter(open).flat_map(|job| self.groups_of(job));
        groups.filter(|group| self.group(*group).span() > 0).collect()
    }

    /// Counts a pod that fills no slot.
    pub(crate) fn occupy(&mut self, node: NodeIx, group: GroupIx) {
        let need = &self.classes.get(self.groups[group.get()].class).need;
        self.ledger.occupy(node, need);
        self.potential[node.get()].iter_mut().zip(need).for_each(|(room, need)| *room -= need);
        self.free_share[node.get()] = self.ledger.free_share(node);
    }

    /// Fills an empty slot.
    pub(crate) fn place(&mut self, pod: PodRef, slot: Slot) {
        let group = &mut self.groups[pod.0.get()];
        let (tier, need) = (group.tier(pod.1), &self.classes.get(group.class).need);
        match slot.phase {
            Phase::Bound | Phase::Assigned | Phase::Created(_) => self.ledger.occupy(slot.node, need),
            Phase::Promised => {
                self.ledger.promise(slot.node, need, tier);
                self.promised.insert(pod);
            }
        }
        group.pods.insert(pod.1, slot);
        match tier {
            Tier::Surplus => {
                group.surplus += 1;
                self.surplus_on[slot.node.get()].push(pod);
            }
            Tier::Base => {
                self.potential[slot.node.get()].iter_mut().zip(need).for_each(|(room, need)| *room -= need);
            }
        }
        self.free_share[slot.node.get()] = self.ledger.free_share(slot.node);
    }

    /// Empties a slot: a bound pod drains, everything else frees its room at once.
    pub(crate) fn end(&mut self, pod: PodRef, cause: EndCause) -> Ended {
        let group = &mut self.groups[pod.0.get()];
        let slot = group.pods.remove(&pod.1).expect("only a filled slot is emptied");
        let (tier, need) = (group.tier(pod.1), &self.classes.get(group.class).need);
        match slot.phase {
            Phase::Bound => {
                self.ledger.drain(slot.node, need);
                group.draining.insert(pod.1);
            }
            Phase::Assigned | Phase::Created(_) => self.ledger.vacate(slot.node, need),
            Phase::Promised => {
                self.ledger.unpromise(slot.node, need, tier);
                self.promised.remove(&pod);
            }
        }
        match tier {
            Tier::Surplus => {
                group.surplus -= 1;
                self.surplus_on[slot.node.get()].retain(|other| *other != pod);
            }
            Tier::Base => {
                self.potential[slot.node.get()].iter_mut().zip(need).for_each(|(room, need)| *room += need);
            }
        }
        self.free_share[slot.node.get()] = self.ledger.free_share(slot.node);
        Ended { pod, slot, cause }
    }

    /// Takes back an [`State::end`].
    pub(crate) fn reinstate(&mut self, ended: Ended) {
        let Ended { pod, slot, .. } = ended;
        if slot.phase == Phase::Bound {
            // `place` takes the room from both sides of the ledger; `now` never got it back.
            let need = self.classes.get(self.groups[pod.0.get()].class).need.clone();
            self.ledger.undrain(slot.node, &need);
            self.ledger.vacate(slot.node, &need);
            self.groups[pod.0.get()].draining.remove(&pod.1);
        }
        self.place(pod, slot);
    }

    /// Makes a promise into a pod that is created now.
    pub(crate) fn redeem(&mut self, pod: PodRef, origin: Origin) {
        let Ended { slot, .. } = self.end(pod, EndCause::PlaceGone);
        self.place(pod, Slot { node: slot.node, phase: Phase::Created(origin) });
    }
}
