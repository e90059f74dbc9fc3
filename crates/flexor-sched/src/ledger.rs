//! The room on each node: free now, free after drains, promised.
//!
//! `now` is what the scheduler would find free, less pods that are assigned to the node but not bound yet. `after` adds
//! the pods that are ending and takes off what is promised. Base and shares are planned on `after`; a pod is created
//! only into `now`. On nodes without over-commitment from outside no number here ever falls below zero.

use crate::amounts::Row;
use crate::classes::fits;
use crate::index::NodeIx;

#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    width: usize,
    nodes: usize,
    allocatable: Vec<i64>,
    now: Vec<i64>,
    after: Vec<i64>,
    /// Promised to gangs, and to all.
    promised_base: Vec<i64>,
    promised: Vec<i64>,
}

/// Whether a promise is for a pod of a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Base,
    Surplus,
}

impl Ledger {
    pub(crate) fn new(width: usize, capacities: &[Row]) -> Self {
        let allocatable: Vec<i64> = capacities.iter().flatten().copied().collect();
        let none = vec![0; allocatable.len()];
        Self {
            width,
            nodes: capacities.len(),
            now: allocatable.clone(),
            after: allocatable.clone(),
            promised_base: none.clone(),
            promised: none,
            allocatable,
        }
    }

    fn row<'a>(&self, table: &'a [i64], node: NodeIx) -> &'a [i64] {
        &table[node.get() * self.width..][..self.width]
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The allocatable sum of one resource.
    pub(crate) fn total(&self, position: usize) -> i128 {
        self.column(&self.allocatable, position).map(i128::from).sum()
    }

    /// The allocatable amount of one resource on the node that has most of it.
    pub(crate) fn largest(&self, position: usize) -> i64 {
        self.column(&self.allocatable, position).max().unwrap_or(0)
    }

    fn column<'a>(&self, table: &'a [i64], position: usize) -> impl Iterator<Item = i64> + 'a {
        table.iter().skip(position).step_by(self.width.max(1)).copied()
    }

    pub(crate) fn after(&self, node: NodeIx) -> &[i64] {
        self.row(&self.after, node)
    }

    pub(crate) fn allocatable(&self, node: NodeIx) -> &[i64] {
        self.row(&self.allocatable, node)
    }

    pub(crate) fn fits_after(&self, node: NodeIx, need: &[i64]) -> bool {
        fits(self.after(node), need)
    }

    /// Whether the pod fits now and leaves to promises what is theirs.
    pub(crate) fn fits_now(&self, node: NodeIx, need: &[i64]) -> bool {
        self.fits_beside(node, need, &self.promised) && self.fits_after(node, need)
    }

    /// Whether a promised pod fits now. Gangs go first: a promise for surplus leaves to them what is theirs.
    pub(crate) fn redeemable(&self, node: NodeIx, need: &[i64], tier: Tier) -> bool {
        match tier {
            Tier::Base => fits(self.row(&self.now, node), need),
            Tier::Surplus => self.fits_beside(node, need, &self.promised_base),
        }
    }

    fn fits_beside(&self, node: NodeIx, need: &[i64], kept: &[i64]) -> bool {
        let room = self.row(&self.now, node).iter().zip(self.row(kept, node));
        room.zip(need).all(|((now, kept), need)| *need == 0 || now - kept >= *need)
    }

    /// A pod is bound, or assigned to a node.
    pub(crate) fn occupy(&mut self, node: NodeIx, need: &[i64]) {
        self.add(node, need, -1, Table::Now);
        self.add(node, need, -1, Table::After);
    }

    /// A pod that holds no room at all is given up.
    pub(crate) fn vacate(&mut self, node: NodeIx, need: &[i64]) {
        self.add(node, need, 1, Table::Now);
        self.add(node, need, 1, Table::After);
    }

    /// A bound pod is ending.
    pub(crate) fn drain(&mut self, node: NodeIx, need: &[i64]) {
        self.add(node, need, 1, Table::After);
    }

    /// The reverse of [`Ledger::drain`].
    pub(crate) fn undrain(&mut self, node: NodeIx, need: &[i64]) {
        self.add(node, need, -1, Table::After);
    }

    pub(crate) fn promise(&mut self, node: NodeIx, need: &[i64], tier: Tier) {
        self.add(node, need, -1, Table::After);
        self.add_promised(node, need, 1, tier);
    }

    pub(crate) fn unpromise(&mut self, node: NodeIx, need: &[i64], tier: Tier) {
        self.add(node, need, 1, Table::After);
        self.add_promised(node, need, -1, tier);
    }

    fn add_promised(&mut self, node: NodeIx, need: &[i64], sign: i64, tier: Tier) {
        self.add(node, need, sign, Table::Promised);
        if tier == Tier::Base {
            self.add(node, need, sign, Table::PromisedBase);
        }
    }

    fn add(&mut self, node: NodeIx, need: &[i64], sign: i64, table: Table) {
        let table = match table {
            Table::Now => &mut self.now,
            Table::After => &mut self.after,
            Table::Promised => &mut self.promised,
            Table::PromisedBase => &mut self.promised_base,
        };
        let row = &mut table[node.get() * self.width..][..self.width];
        row.iter_mut().zip(need).for_each(|(value, need)| *value += sign * need);
    }

    /// The part of the node that is free after drains: the mean over its resources, in 1/4096. The scheduler's spread
    /// score, which decides where a base pod goes among nodes that fit.
    pub(crate) fn free_share(&self, node: NodeIx) -> i64 {
        let rows = self.after(node).iter().zip(self.allocatable(node));
        let parts = rows.filter(|(_, all)| **all > 0).map(|(free, all)| (free.max(&0) << 12) / all);
        let (sum, count) = parts.fold((0, 0), |(sum, count), part| (sum + part, count + 1));
        if count == 0 { 0 } else { sum / count }
    }
}

#[derive(Clone, Copy)]
enum Table {
    Now,
    After,
    Promised,
    PromisedBase,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: fn() -> NodeIx = || NodeIx::at(0);

    fn ledger(cores: i64) -> Ledger {
        Ledger::new(1, &[vec![cores].into()])
    }

    #[test]
    fn room_of_an_ending_pod_counts_after_and_not_now() {
        let mut ledger = ledger(10);
        ledger.occupy(NODE(), &[8]);
        ledger.drain(NODE(), &[8]);
        assert!(ledger.fits_after(NODE(), &[10]));
        assert!(ledger.fits_now(NODE(), &[2]) && !ledger.fits_now(NODE(), &[3]));
    }

    #[test]
    fn promised_room_is_closed_to_others_and_open_to_its_holder() {
        let mut ledger = ledger(10);
        ledger.promise(NODE(), &[8], Tier::Base);
        assert!(!ledger.fits_now(NODE(), &[3]) && ledger.fits_now(NODE(), &[2]));
        assert!(ledger.redeemable(NODE(), &[8], Tier::Base));
        ledger.promise(NODE(), &[2], Tier::Surplus);
        assert!(ledger.redeemable(NODE(), &[2], Tier::Surplus) && !ledger.redeemable(NODE(), &[3], Tier::Surplus));
        assert!(!ledger.fits_now(NODE(), &[1]), "promises for surplus count too");
        ledger.unpromise(NODE(), &[8], Tier::Base);
        assert!(ledger.fits_now(NODE(), &[8]) && !ledger.fits_now(NODE(), &[9]));
    }

    #[test]
    fn an_overdrawn_resource_stops_only_pods_that_ask_for_it() {
        let mut ledger = Ledger::new(2, &[vec![4, 4].into()]);
        ledger.occupy(NODE(), &[0, 6]);
        assert!(ledger.fits_now(NODE(), &[4, 0]) && !ledger.fits_now(NODE(), &[1, 1]));
    }
}
