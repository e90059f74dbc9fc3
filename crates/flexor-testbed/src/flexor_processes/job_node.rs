//! One node of a job: stock torchrun and its sidecar, which are lost and hang together.

use super::{Master, Namespace, Sidecar};
use crate::torch::Torch;
use crate::torchrun::{Agent, AgentConfig};

/// A running node.
#[derive(Debug)]
pub struct JobNode {
    // Before the sidecar, so that its end is not the loss of its store.
    agent: Agent,
    sidecar: Sidecar,
}

impl JobNode {
    /// Starts a torchrun that joins `master` through its own sidecar. The pod has the agent's name.
    pub fn start(torch: &Torch, master: &Master, config: AgentConfig) -> anyhow::Result<Self> {
        Self::start_in(torch, master, config, master.network())
    }

    /// Starts it in this network, which may differ from the master's.
    pub fn start_in(
        torch: &Torch,
        master: &Master,
        config: AgentConfig,
        network: Option<&Namespace>,
    ) -> anyhow::Result<Self> {
        let sidecar = Sidecar::start_in(master, config.name(), network)?;
        let variables = master.torchrun_variables(sidecar.endpoint())?;
        let config = variables.into_iter().fold(config, |config, (name, value)| config.env(name, value));
        let config = network.into_iter().fold(config, AgentConfig::network);
        Ok(Self { agent: Agent::start(torch, config)?, sidecar })
    }

    /// Its torchrun.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Its sidecar.
    pub fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }

    /// Loses the node: torchrun, workers and sidecar are killed, and no process is left to report it.
    pub fn kill(&self) {
        self.sidecar.kill();
        self.agent.kill_node();
    }

    /// It hangs: everything of it stops where it is, its connections stay open.
    pub fn stop(&self) {
        self.sidecar.stop();
        self.agent.stop_node();
    }

    /// Resumes a node after [`JobNode::stop`].
    pub fn wake(&self) {
        self.sidecar.wake();
        self.agent.continue_node();
    }
}
