//! Applies observations of nodes and pods: workers of lost nodes are lost, and the first worker of a failed round is
//! charged.
//!
//! The ledger reads states, not events. A late, repeated or restarted observation therefore leads to the same facts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Round;

use super::worker::Worker;
use super::{Fact, Ledger, WorkerEnd, WorkerId};

/// The nodes of a job, as the rendezvous knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedNodes {
    /// The names of the live nodes.
    pub alive: BTreeSet<Arc<str>>,
    /// The last complete round.
    pub round: Option<Round>,
    /// The latest rounds that ended because the program failed.
    pub failed_rounds: BTreeSet<Round>,
    /// The rendezvous is closed.
    pub closed: bool,
}

impl Ledger {
    /// Workers of lost nodes are lost. Failures of a round are settled once a later round is complete: if the program
    /// ended the round, the first reported worker is charged, and no other.
    pub fn observe_nodes(&mut self, nodes: &ObservedNodes, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        self.settle_failures(nodes, facts);
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
            self.end(&worker, WorkerEnd::Lost, facts);
        }
        self.nodes.clone_from(&nodes.alive);
        self.check(facts);
    }

    /// Observes the pods that lease data: `here` are all known pods, `over` those that have ended. A worker with the
    /// name of an ended pod is lost. So is a worker that has neither a session nor a pod: a new master learns only of
    /// existing pods, and need not wait for earlier ones.
    pub fn observe_pods(&mut self, here: &BTreeSet<&str>, over: &BTreeSet<&str>, now: Duration, facts: &mut Vec<Fact>) {
        self.clock.advance(now);
        let is_lost = |id: &WorkerId, worker: &Worker| {
            let is_gone = worker.away_until.is_some() && id.node().is_none() && !here.contains(&*id.name);
            over.contains(&*id.name) || is_gone
        };
        let all =
            self.workers.iter().map(|(name, worker)| (WorkerId::new(Arc::clone(name), worker.incarnation), worker));
        let lost: Vec<WorkerId> = all.filter(|(id, worker)| is_lost(id, worker)).map(|(id, _)| id).collect();
        for worker in lost {
            self.end(&worker, WorkerEnd::Lost, facts);
        }
        self.check(facts);
    }

    fn settle_failures(&mut self, nodes: &ObservedNodes, facts: &mut Vec<Fact>) {
        let is_over = |round: &Round| nodes.closed || nodes.round.is_some_and(|now| now > *round);
        let over: Vec<(WorkerId, Round)> = self.failed.iter().filter(|(_, round)| is_over(round)).cloned().collect();
        let mut blamed = BTreeSet::new();
        for (worker, round) in over {
            let is_first = nodes.failed_rounds.contains(&round) && blamed.insert(round);
            self.end(&worker, if is_first { WorkerEnd::Failed } else { WorkerEnd::Lost }, facts);
        }
    }
}
