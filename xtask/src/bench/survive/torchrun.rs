//! The peer: stock torchrun with the settings that recover fastest, running the testbed's probe script. A killed worker
//! makes it restart all workers.

use std::time::Duration;

use anyhow::{Context, Result};
use flexor_testbed::Torch;
use flexor_testbed::torchrun::{Agent, AgentConfig, ProbeEvent, ProbeEventKind, StockStore, Workers};

use super::steps::ALL;

/// The limit of each wait: torch is imported by every agent and by every worker.
const DEADLINE: Duration = Duration::from_secs(120);

/// Kills the worker of this rank. Returns the seconds from then until every agent's new worker has made a step.
pub(super) fn play(torch: &Torch, rank: usize) -> Result<f64> {
    let store = StockStore::start(torch)?;
    let mut agents = Vec::new();
    for number in 0..ALL {
        let config = AgentConfig::new(format!("node-{number}")).rendezvous(&store.endpoint(), "2:3");
        // torchrun orders ranks by address, so that agents keep theirs across restarts.
        let config = config.env("PET_LOCAL_ADDR", format!("127.1.1.{}", 10 + number));
        // The store is outside of the agents, and workers have one of their own: no agent's end takes a store along.
        let config = config.env("PET_RDZV_CONF", "is_host=false").env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
        agents.push(Agent::start(torch, config.env("PET_MAX_RESTARTS", "3"))?);
    }
    let mut victim = None;
    for (position, agent) in agents.iter().enumerate() {
        let stepped = |event: &ProbeEvent| event.kind == ProbeEventKind::Step && event.world as usize == ALL;
        let step = agent.await_event(DEADLINE, stepped)?;
        if step.rank as usize == rank {
            victim = Some(position);
        }
    }
    let victim = victim.with_context(|| format!("no process has rank {rank}"))?;
    let old = Workers::of(&agents);
    agents[victim].kill_workers()?;
    let steps = old.await_successors(&agents, ALL, ProbeEventKind::Step, DEADLINE)?;
    let last = steps.into_iter().map(|step| step.at).max().context("no agent has made a step")?;
    Ok(last.duration_since(old.since())?.as_secs_f64())
}
