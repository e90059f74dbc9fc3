//! A job of several torchruns on one side, and waiting for its worlds.

use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use flexor_testbed::Torch;
use flexor_testbed::flexor_processes::{Namespace, TwoNetworks};
use flexor_testbed::torchrun::{Agent, AgentConfig, ProbeEvent, ProbeEventKind};

use super::first_byte::FirstByteRelay;
use super::side::{Attachment, Host, Interrupted, NodePosition, Side};

/// How long a first world may take: torch is imported twice per node, and with two of three nodes torchrun waits 30 s
/// for the third.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// The node that a cut cable cuts off.
const ISLANDER: usize = 2;

/// A running job.
#[derive(Debug)]
pub(super) struct Job<'a> {
    torch: &'a Torch,
    // Before the host, so that the end of the nodes is not the loss of their store.
    nodes: Vec<RunningNode>,
    host: Host,
    networks: Option<&'a TwoNetworks>,
    work: Work,
}

/// The configuration of a node's workers, by the node's index.
pub(super) type Work = fn(config: AgentConfig, index: usize) -> AgentConfig;

/// One node of a job, with its connection to the store.
#[derive(Debug)]
pub(super) struct RunningNode {
    agent: Agent,
    attachment: Attachment,
}

impl RunningNode {
    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Loses the node: all its processes are killed, and none is left to report it.
    pub(super) fn kill(self) {
        if let Some(sidecar) = &self.attachment.sidecar {
            sidecar.kill();
        }
        self.agent.kill_node();
    }

    /// It hangs: everything of it stops, its connections stay open.
    pub(super) fn stop(&self) {
        if let Some(sidecar) = &self.attachment.sidecar {
            sidecar.stop();
        }
        self.agent.stop_node();
    }

    /// It wakes again.
    pub(super) fn wake(&self) {
        if let Some(sidecar) = &self.attachment.sidecar {
            sidecar.wake();
        }
        self.agent.continue_node();
    }
}

impl<'a> Job<'a> {
    /// Starts `count` nodes and waits until a world of `count` makes steps.
    pub(super) fn start(torch: &'a Torch, side: &Side, count: usize, work: Work) -> Result<Job<'a>> {
        let host = Host::start(side, torch, None)?;
        Job { torch, nodes: Vec::new(), host, networks: None, work }.with_first_world(count)
    }

    /// As [`Job::start`] for three nodes; the last can be cut off.
    pub(super) fn start_across(torch: &'a Torch, side: &Side, networks: &'a TwoNetworks) -> Result<Job<'a>> {
        let host = Host::start(side, torch, Some(networks.mainland()))?;
        let work: Work = |config, _| config;
        Job { torch, nodes: Vec::new(), host, networks: Some(networks), work }.with_first_world(ISLANDER + 1)
    }

    fn with_first_world(mut self, count: usize) -> Result<Job<'a>> {
        for index in 0..count {
            self.add_node(index)?;
            if index == 0 {
                self.await_first_node_as_host()?;
            }
        }
        for agent in self.agents() {
            let stepped = |event: &ProbeEvent| event.kind == ProbeEventKind::Step && event.world as usize == count;
            agent.await_event(START_DEADLINE, stepped).context("the first world")?;
        }
        Ok(self)
    }

    /// Starts one more node. Nodes rank by `index`: torchrun sorts by address, and each node has its own.
    pub(super) fn add_node(&mut self, index: usize) -> Result<()> {
        let attachment = self.host.attach(&name_of(index), self.network_of(index))?;
        let endpoint = attachment.endpoint.clone();
        self.start_agent(index, attachment, &endpoint)
    }

    /// Starts one more node and gives the moment when its first byte is on its way to the store.
    pub(super) fn add_newcomer(&mut self, index: usize) -> Result<SystemTime> {
        let attachment = self.host.attach(&name_of(index), None)?;
        let relay = FirstByteRelay::start(&attachment.endpoint)?;
        self.start_agent(index, attachment, relay.endpoint())?;
        relay.first_byte(START_DEADLINE)
    }

    /// The torchruns of its nodes.
    pub(super) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.nodes.iter().map(RunningNode::agent)
    }

    /// The node at this position, in the order of their start.
    pub(super) fn node(&self, position: usize) -> &RunningNode {
        &self.nodes[position]
    }

    /// Removes a node from those that waits cover.
    pub(super) fn take(&mut self, position: usize) -> RunningNode {
        self.nodes.remove(position)
    }

    /// Adds a removed node again.
    pub(super) fn put_back(&mut self, node: RunningNode) {
        self.nodes.push(node);
    }

    /// Kills the store, with its node if it is in one, and restarts it after this pause where that is possible.
    pub(super) fn interrupt_store(&mut self, pause: Duration) -> Result<()> {
        if self.host.interrupt(self.torch, pause)? == Interrupted::WithItsNode {
            self.nodes[0].agent.kill_node();
        }
        Ok(())
    }

    /// Waits until the workers at these places have ended.
    pub(super) fn await_workers_gone(&self, positions: &[usize]) -> Result<()> {
        for &position in positions {
            let agent = &self.nodes[position].agent;
            agent.await_event(START_DEADLINE, |event| event.kind == ProbeEventKind::End)?;
            agent.await_no_workers(START_DEADLINE)?;
        }
        Ok(())
    }

    /// Waits until all nodes have ended well; the time when the last one had. `None` when one has not before `deadline`
    /// or has ended otherwise.
    pub(super) fn await_success(&self, deadline: Instant) -> Option<SystemTime> {
        for agent in self.agents() {
            let left = deadline.saturating_duration_since(Instant::now());
            agent.await_exit(left).ok().filter(|code| *code == 0)?;
        }
        Some(SystemTime::now())
    }

    /// How many nodes have ended by themselves.
    pub(super) fn ended(&self) -> usize {
        self.agents().filter(|agent| agent.exit_code().is_some()).count()
    }

    fn start_agent(&mut self, index: usize, attachment: Attachment, endpoint: &str) -> Result<()> {
        let config = AgentConfig::new(name_of(index)).env("PET_LOCAL_ADDR", format!("127.1.1.{}", 10 + index));
        let config = self.network_of(index).into_iter().fold(config, AgentConfig::network);
        let position = if index == 0 { NodePosition::First } else { NodePosition::Later };
        let config = (self.work)(self.host.agent(config, endpoint, position)?, index);
        let agent = Agent::start(self.torch, config)?;
        self.nodes.push(RunningNode { agent, attachment });
        Ok(())
    }

    fn network_of(&self, index: usize) -> Option<&'a Namespace> {
        self.networks.map(|networks| if index == ISLANDER { networks.island() } else { networks.mainland() })
    }

    /// Where the first node hosts the store, no other node may start before it.
    fn await_first_node_as_host(&self) -> Result<()> {
        let Host::FirstNode { address } = &self.host else {
            return Ok(());
        };
        let reached = || match self.networks {
            Some(networks) => networks.mainland().connect(address).is_ok(),
            None => TcpStream::connect(address).is_ok(),
        };
        let started = Instant::now();
        while !reached() {
            if started.elapsed() > START_DEADLINE {
                bail!("the first node opened no store within {START_DEADLINE:?}:\n{}", self.node(0).agent.log());
            }
            // A port cannot be watched from outside.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn name_of(index: usize) -> String {
    format!("node-{index}")
}
