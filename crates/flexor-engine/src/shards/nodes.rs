//! What the ledger takes from the rendezvous: whose node is gone, and whose fault it was that a world ended.
//!
//! It is told how things stand and not what has happened, so that being told late, twice or after a restart changes
//! nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;

use super::worker::Worker;
use super::{Ending, Fact, Shards, WorkerId};

/// How the nodes of a job stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The names of those that are alive.
    pub alive: BTreeSet<Arc<str>>,
    /// The last round that has completed.
    pub round: Option<Round>,
    /// The last rounds that ended because the program failed.
    pub failed_rounds: BTreeSet<Round>,
    /// Nobody meets any more.
    pub closed: bool,
}

impl Shards {
    /// Takes over how the nodes stand: workers of nodes that are gone are lost, and where the nodes have met again, of
    /// those whose program failed in a round the first is to blame if it was the program that ended it, and nobody else.
    pub fn follow(&mut self, nodes: &Nodes, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.judge(nodes, facts);
        let pending: BTreeSet<WorkerId> = self.failed.iter().map(|(worker, _)| worker.clone()).collect();
        let mut lost = Vec::new();
        for (name, worker) in &mut self.workers {
            let id = WorkerId::new(Arc::clone(name), worker.incarnation);
            let Some(node) = id.node() else { continue };
            let is_alive = nodes.alive.contains(node);
            if worker.of_node && !is_alive && !pending.contains(&id) {
                lost.push(id);
            } else {
                worker.of_node |= is_alive;
            }
        }
        for worker in lost {
            self.end(&worker, Ending::Lost, facts);
        }
        self.nodes.clone_from(&nodes.alive);
        self.check(facts);
    }

    /// How the pods stand that lease data, as their controller says: all there are, and which of them are over. Who leased
    /// something under the name of one that is over is lost; so is who has no session, and no pod any more. A master that
    /// has just begun hears only of pods that are there, and need not wait for those of before.
    pub fn pods_stand(&mut self, here: &BTreeSet<&str>, over: &BTreeSet<&str>, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let is_lost = |id: &WorkerId, worker: &Worker| {
            let is_gone = worker.away_until.is_some() && id.node().is_none() && !here.contains(&*id.name);
            over.contains(&*id.name) || is_gone
        };
        let all =
            self.workers.iter().map(|(name, worker)| (WorkerId::new(Arc::clone(name), worker.incarnation), worker));
        let lost: Vec<WorkerId> = all.filter(|(id, worker)| is_lost(id, worker)).map(|(id, _)| id).collect();
        for worker in lost {
            self.end(&worker, Ending::Lost, facts);
        }
        self.check(facts);
    }

    fn judge(&mut self, nodes: &Nodes, facts: &mut Vec<Fact>) {
        let is_over = |round: &Round| nodes.closed || nodes.round.is_some_and(|now| now > *round);
        let over: Vec<(WorkerId, Round)> = self.failed.iter().filter(|(_, round)| is_over(round)).cloned().collect();
        let mut blamed = BTreeSet::new();
        for (worker, round) in over {
            let is_first = nodes.failed_rounds.contains(&round) && blamed.insert(round);
            self.end(&worker, if is_first { Ending::Failed } else { Ending::Lost }, facts);
        }
    }
}
