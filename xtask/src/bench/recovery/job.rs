//! A job of several torchruns on one side, and waiting for its worlds.

use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use flexor_testbed::Torch;
use flexor_testbed::torchrun::{Agent, AgentConfig, ProbeEvent, ProbeEventKind};

use super::first_byte::FirstByteRelay;
use super::flexor::Sidecar;
use super::side::{Attachment, Host, Interrupted, Side};

/// How long a first world may take: torch is imported twice per node, and with two of three nodes torchrun waits 30 s
/// for the third.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// A running job.
#[derive(Debug)]
pub(super) struct Job<'a> {
    torch: &'a Torch,
    // Before the host, so that the end of the nodes is not the loss of their store.
    nodes: Vec<RunningNode>,
    host: Host,
    work: Work,
}

/// What the workers of a node do, by the node's index.
pub(super) type Work = fn(config: AgentConfig, index: usize) -> AgentConfig;

/// One node of a job, with what stands between it and the store.
#[derive(Debug)]
pub(super) struct RunningNode {
    agent: Agent,
    attachment: Attachment,
}

impl RunningNode {
    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Its loss: everything of it is gone.
    pub(super) fn kill(self) {
        self.agent.kill_node();
    }

    /// It hangs: everything of it stops, its connections stay open.
    pub(super) fn stop(&self) -> Result<()> {
        self.agent.stop_node();
        self.attachment.sidecar.as_ref().map_or(Ok(()), Sidecar::stop)
    }
}

impl<'a> Job<'a> {
    /// Starts `count` nodes and waits until a world of `count` makes steps.
    pub(super) fn start(torch: &'a Torch, side: &Side, count: usize, work: Work) -> Result<Job<'a>> {
        let mut job = Job { torch, nodes: Vec::new(), host: Host::start(side, torch)?, work };
        for index in 0..count {
            job.add_node(index)?;
            if index == 0 {
                job.await_first_node_as_host()?;
            }
        }
        for node in &job.nodes {
            let stepped = |event: &ProbeEvent| event.kind == ProbeEventKind::Step && event.world as usize == count;
            node.agent.await_event(START_DEADLINE, stepped).context("the first world")?;
        }
        Ok(job)
    }

    /// Starts one more node. Nodes rank by `index`: torchrun sorts by address, and each node has one of its own.
    pub(super) fn add_node(&mut self, index: usize) -> Result<()> {
        let attachment = self.host.attach(&format!("node-{index}"))?;
        let endpoint = attachment.endpoint.clone();
        self.start_agent(index, attachment, &endpoint)
    }

    /// Starts one more node and gives the moment when its first byte is on its way to the store.
    pub(super) fn add_newcomer(&mut self, index: usize) -> Result<SystemTime> {
        let attachment = self.host.attach(&format!("node-{index}"))?;
        let relay = FirstByteRelay::start(&attachment.endpoint)?;
        self.start_agent(index, attachment, relay.endpoint())?;
        relay.first_byte(START_DEADLINE)
    }

    /// The node at this place, in the order they were started.
    pub(super) fn node(&self, position: usize) -> &RunningNode {
        &self.nodes[position]
    }

    /// Takes a node away from those that are waited for.
    pub(super) fn take(&mut self, position: usize) -> RunningNode {
        self.nodes.remove(position)
    }

    /// Kills the store, and with it the node that it lives in if it does, and has it back after this long if it can be.
    pub(super) fn interrupt_store(&mut self, pause: Duration) -> Result<()> {
        if self.host.interrupt(self.torch, pause)? == Interrupted::WithItsNode {
            self.nodes[0].agent.kill_node();
        }
        Ok(())
    }

    /// The worker processes that are there.
    pub(super) fn workers(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.agent.events().last().map(|event| event.pid)).collect()
    }

    /// Waits until all nodes run workers, other than `old`, of a world of this size: the time of the last one's event of
    /// this kind. `None` when that does not happen before `deadline` or cannot any more.
    pub(super) fn await_world(
        &self,
        kind: ProbeEventKind,
        world: usize,
        old: &[u32],
        deadline: Instant,
    ) -> Option<SystemTime> {
        let wanted =
            |event: &ProbeEvent| event.kind == kind && event.world as usize == world && !old.contains(&event.pid);
        let left = || deadline.saturating_duration_since(Instant::now());
        let events = self.nodes.iter().map(|node| node.agent.await_event(left(), wanted).ok());
        let moments: Option<Vec<_>> = events.map(|event| Some(event?.at)).collect();
        moments?.into_iter().max()
    }

    /// Waits until the workers at these places have ended.
    pub(super) fn await_workers_gone(&self, positions: &[usize]) -> Result<()> {
        for &position in positions {
            let agent = &self.nodes[position].agent;
            agent.await_event(START_DEADLINE, |event| event.kind == ProbeEventKind::End)?;
            let started = Instant::now();
            while !agent.worker_pids().is_empty() {
                if started.elapsed() > START_DEADLINE {
                    bail!("the worker of {} does not end", agent.name());
                }
                // The end of a stranger's process cannot be waited for, only looked for.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Waits until all nodes have ended well; the time when the last one had. `None` as with [`Job::await_world`].
    pub(super) fn await_success(&self, deadline: Instant) -> Option<SystemTime> {
        for node in &self.nodes {
            let left = deadline.saturating_duration_since(Instant::now());
            node.agent.await_exit(left).ok().filter(|code| *code == 0)?;
        }
        Some(SystemTime::now())
    }

    /// All starts of workers after `moment`, per node.
    pub(super) fn starts_after(&self, moment: SystemTime) -> Vec<Vec<ProbeEvent>> {
        let started = |event: &ProbeEvent| event.kind == ProbeEventKind::Start && event.at > moment;
        self.nodes.iter().map(|node| node.agent.events().into_iter().filter(started).collect()).collect()
    }

    /// How many nodes have ended by themselves.
    pub(super) fn ended(&self) -> usize {
        self.nodes.iter().filter(|node| node.agent.exit_code().is_some()).count()
    }

    fn start_agent(&mut self, index: usize, attachment: Attachment, endpoint: &str) -> Result<()> {
        let name = format!("node-{index}");
        let config = AgentConfig::new(name).env("PET_LOCAL_ADDR", format!("127.1.1.{}", 10 + index));
        let config = (self.work)(self.host.agent(config, endpoint), index);
        let agent = Agent::start(self.torch, config)?;
        self.nodes.push(RunningNode { agent, attachment });
        Ok(())
    }

    /// Where the first node keeps the store, nobody else may come before it.
    fn await_first_node_as_host(&self) -> Result<()> {
        let Host::FirstNode { port } = self.host else { return Ok(()) };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > START_DEADLINE {
                bail!("the first node opened no store within {START_DEADLINE:?}:\n{}", self.node(0).agent.log());
            }
            // A port cannot be watched from outside.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
