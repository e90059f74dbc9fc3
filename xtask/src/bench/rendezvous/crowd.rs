//! Many simulated agents that rendezvous at a TCPStore, twice.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flexor_store::state::NodeDesc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::agent::Agent;
use super::handler_rules::Handler;
use super::handlers::RendezvousTimes;
use crate::bench::our_master::JOB;

/// How often a waiting agent checks whether its heartbeat is due: torch's timer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Runs a rendezvous of this many agents at the store `HOST:PORT`. One that exceeds `limit` counts as infinite.
pub(super) async fn meet(endpoint: &str, nodes: usize, limit: Duration) -> Result<RendezvousTimes> {
    let mut agents = Vec::with_capacity(nodes);
    for number in 0..nodes {
        let node = NodeDesc { addr: format!("node-{number:05}").into(), pid: 4000 + number as u64, local_id: 0 };
        // The golden ratio spreads the delays evenly whatever the number of agents, and alike in every repeat.
        let delay = (number as f64 * 0.618_033_988_749_895).fract();
        agents.push(Agent::connect(endpoint, JOB, Handler { node, nodes }, delay).await?);
    }
    let Some((agents, first)) = round(agents, limit).await? else {
        return Ok(RendezvousTimes::NEVER);
    };
    let again = round(agents, limit).await?.map_or(f64::INFINITY, |(_, seconds)| seconds);
    Ok(RendezvousTimes { first, again })
}

/// One round of all agents; returns the seconds until the last one knew its rank, or `None` beyond the limit.
async fn round(agents: Vec<Agent>, limit: Duration) -> Result<Option<(Vec<Agent>, f64)>> {
    let nodes = agents.len();
    let started = Instant::now();
    let (arrived, _) = watch::channel(0);
    // Dropped with its remaining tasks: no agent continues after a failure.
    let mut tasks = JoinSet::new();
    for agent in agents {
        tasks.spawn(take_part(agent, arrived.clone(), nodes));
    }
    let (mut agents, mut ranks, mut last) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes), started);
    loop {
        let left = limit.saturating_sub(started.elapsed());
        let Ok(done) = tokio::time::timeout(left, tasks.join_next()).await else {
            return Ok(None);
        };
        let Some(done) = done else { break };
        let (agent, rank, known) = done??;
        agents.push(agent);
        ranks.push(rank);
        last = last.max(known);
    }
    ranks.sort_unstable();
    ensure!(ranks.into_iter().eq(0..nodes as u64), "{nodes} agents have met and a rank is missing or given twice");
    Ok(Some((agents, (last - started).as_secs_f64())))
}

/// One agent's round. It stays, and stays alive, until everyone has arrived.
async fn take_part(mut agent: Agent, arrived: watch::Sender<usize>, nodes: usize) -> Result<(Agent, u64, Instant)> {
    let rank = agent.next_rendezvous().await?;
    let known = Instant::now();
    let mut arrivals = arrived.subscribe();
    arrived.send_modify(|count| *count += 1);
    while tokio::time::timeout(KEEP_ALIVE, arrivals.wait_for(|count| *count == nodes)).await.is_err() {
        agent.keep_alive().await?;
    }
    Ok((agent, rank, known))
}
