//! What the ledger takes from the rendezvous: whose node is gone, and whose fault it was that a world ended.
//!
//! It is told how things stand and not what has happened, so that being told late, twice or after a restart changes
//! nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;

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
        self.advance(now);
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

    /// The pods of these names are over, as their controller says: who leased data under such a name is lost.
    pub fn pods_over(&mut self, pods: &BTreeSet<&str>, now: Duration, facts: &mut Vec<Fact>) {
        self.advance(now);
        let lost: Vec<WorkerId> = self.workers().filter(|worker| pods.contains(&*worker.name)).collect();
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
