//! The example under `flexor launch`: a launcher for each process, at a master with a journal.

use std::path::Path;

use anyhow::{Context, Result};
use flexor_testbed::Torch;
use flexor_testbed::flexor_processes::{Master, MasterConfig};
use flexor_testbed::torchrun::{Agent, AgentConfig};

use super::steps::{ALL, SLEEP, StepLog, without};

pub(super) fn play(torch: &Torch, program: &Path, example: &Path, rank: usize) -> Result<f64> {
    let folder = tempfile::tempdir().context("cannot make a folder for the steps")?;
    let master = Master::start(torch, MasterConfig::new(program, "survive", "2:3"))?;
    let variables = master.launch_variables(master.grpc())?;
    let (mut agents, mut logs) = (Vec::new(), Vec::new());
    for number in 0..ALL {
        let log = StepLog(folder.path().join(format!("steps-{number}")));
        let config = AgentConfig::new(format!("node-{number}")).flexor_launch(program).script(example);
        let config = config.args(["--steps", "1000000", "--sleep", SLEEP, "--log"]).args([&log.0]);
        let config = variables.iter().fold(config, |config, (name, value)| config.env(name, value));
        agents.push(Agent::start(torch, config)?);
        logs.push(log);
    }
    without(rank, &logs).with_context(|| log_tails(&agents))
}

/// The logs of the launchers and their workers, for an error.
fn log_tails(agents: &[Agent]) -> String {
    agents.iter().map(|agent| format!("{} said\n{}\n", agent.name(), agent.log())).collect()
}
