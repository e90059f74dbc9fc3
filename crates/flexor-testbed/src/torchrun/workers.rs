//! A snapshot of the workers of some agents, and waiting for their successors.

use std::time::{Duration, Instant, SystemTime};

use super::{
    agent::Agent,
    events::{ProbeEvent, ProbeEventKind},
};

/// The workers at one moment.
#[derive(Debug, Clone)]
pub struct Workers {
    pids: Vec<u32>,
    since: SystemTime,
}

impl Workers {
    /// The workers of these agents, now.
    pub fn of<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> Self {
        let pids = agents.into_iter().filter_map(|agent| agent.events().last().map(|event| event.pid)).collect();
        Self { pids, since: SystemTime::now() }
    }

    /// When that was.
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// Waits until every agent has another worker than these in a world of `size`, and gives the first event of this
    /// kind of each.
    pub fn await_successors<'a>(
        &self,
        agents: impl IntoIterator<Item = &'a Agent>,
        size: usize,
        kind: ProbeEventKind,
        deadline: Duration,
    ) -> anyhow::Result<Vec<ProbeEvent>> {
        let begun = Instant::now();
        let wanted = |event: &ProbeEvent| {
            let is_later = event.at > self.since && !self.pids.contains(&event.pid);
            is_later && event.kind == kind && event.world as usize == size
        };
        agents.into_iter().map(|agent| agent.await_event(deadline.saturating_sub(begun.elapsed()), wanted)).collect()
    }

    /// The workers that `agent` has started after these.
    pub fn started_since(&self, agent: &Agent) -> Vec<ProbeEvent> {
        let started = |event: &ProbeEvent| event.kind == ProbeEventKind::Start && event.at > self.since;
        agent.events().into_iter().filter(started).collect()
    }
}
