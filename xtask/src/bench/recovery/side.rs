//! The sides of the race: which store holds the rendezvous, and which launcher starts the workers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use flexor_testbed::Torch;
use flexor_testbed::flexor_processes::{Master, MasterConfig, Namespace, Sidecar};
use flexor_testbed::torchrun::{AgentConfig, StockStore, free_port};

/// Restarts that stock torchrun is given; a membership change uses them up.
const STOCK_RESTARTS: &str = "3";

const NODES: &str = "2:3";

/// One competitor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `flexor master` with stock torchrun and a sidecar per node.
    Flexor {
        /// The program.
        program: PathBuf,
    },
    /// `flexor master` with `flexor launch` instead of torchrun.
    FlexorLaunch {
        /// The program.
        program: PathBuf,
    },
    /// As torchrun's documentation recommends: the first node hosts the store.
    StockAsItIs,
    /// As an expert would: a stock store in its own process, and the variable that cures the worst defects.
    StockAtItsBest,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Flexor { .. } => "flexor",
            Side::FlexorLaunch { .. } => "flexor launch",
            Side::StockAsItIs => "torchrun as it is",
            Side::StockAtItsBest => "torchrun, sharing off",
        })
    }
}

/// A side that serves one job.
#[derive(Debug)]
pub(super) enum Host {
    Flexor { master: Box<Master> },
    FlexorLaunch { master: Box<Master>, program: PathBuf },
    FirstNode { address: String },
    Store { store: StockStore, address: String },
}

impl Host {
    /// Starts it in this network, or on loopback.
    pub(super) fn start(side: &Side, torch: &Torch, network: Option<&Namespace>) -> Result<Host> {
        let host = network.map_or("127.0.0.1".to_owned(), |network| network.address().to_string());
        let master = |program: &Path| -> Result<Box<Master>> {
            let config = MasterConfig::new(program, "recovery", NODES);
            let config = network.into_iter().fold(config, MasterConfig::network);
            Ok(Box::new(Master::start(torch, config)?))
        };
        Ok(match side {
            Side::Flexor { program } => Host::Flexor { master: master(program)? },
            Side::FlexorLaunch { program } => Host::FlexorLaunch { master: master(program)?, program: program.clone() },
            Side::StockAsItIs => Host::FirstNode { address: format!("{host}:{}", free_port()?) },
            Side::StockAtItsBest => {
                let store = StockStore::start_in(torch, network)?;
                let address = format!("{host}:{}", store.port());
                Host::Store { store, address }
            }
        })
    }

    /// The connection of the node called `name` to the store.
    pub(super) fn attach(&self, name: &str, network: Option<&Namespace>) -> Result<Attachment> {
        Ok(match self {
            Host::Flexor { master } => {
                let sidecar = Sidecar::start_in(master, name, network)?;
                Attachment { endpoint: sidecar.endpoint().to_owned(), sidecar: Some(sidecar) }
            }
            Host::FlexorLaunch { master, .. } => Attachment { endpoint: master.grpc().to_owned(), sidecar: None },
            Host::FirstNode { address } | Host::Store { address, .. } => {
                Attachment { endpoint: address.clone(), sidecar: None }
            }
        })
    }

    /// An agent that joins through `endpoint`.
    pub(super) fn agent(&self, config: AgentConfig, endpoint: &str, position: NodePosition) -> Result<AgentConfig> {
        let with = |config: AgentConfig, variables: BTreeMap<String, String>| {
            variables.into_iter().fold(config, |config, (name, value)| config.env(name, value))
        };
        let stock = |config: AgentConfig| config.rendezvous(endpoint, NODES).env("PET_MAX_RESTARTS", STOCK_RESTARTS);
        Ok(match self {
            Host::Flexor { master } => with(config, master.torchrun_variables(endpoint)?),
            Host::FlexorLaunch { master, program } => {
                with(config.flexor_launch(program), master.launch_variables(endpoint)?)
            }
            // All nodes are on one machine, so the endpoint alone does not identify the host.
            Host::FirstNode { .. } => {
                stock(config).env("PET_RDZV_CONF", format!("is_host={}", position == NodePosition::First))
            }
            Host::Store { .. } => {
                stock(config).env("PET_RDZV_CONF", "is_host=false").env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
            }
        })
    }

    /// Kills the store and restarts it at the same address after this pause. A store in the first node cannot be
    /// interrupted without that node.
    pub(super) fn interrupt(&mut self, torch: &Torch, pause: Duration) -> Result<Interrupted> {
        match self {
            Host::Flexor { master } | Host::FlexorLaunch { master, .. } => {
                master.kill();
                thread::sleep(pause);
                master.start_again()?;
            }
            Host::FirstNode { .. } => return Ok(Interrupted::WithItsNode),
            Host::Store { store, .. } => {
                let port = store.port();
                store.kill();
                thread::sleep(pause);
                *store = StockStore::start_at(torch, port)?;
            }
        }
        Ok(Interrupted::Alone)
    }
}

/// The position of a node in its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodePosition {
    /// The first node, which hosts the store where no other process does.
    First,
    /// Any other.
    Later,
}

/// What an interruption of the store ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// It is back.
    Alone,
    /// The first node has to be killed for it; nothing was done.
    WithItsNode,
}

/// How one node reaches the store.
#[derive(Debug)]
pub(super) struct Attachment {
    /// `HOST:PORT` for the agent.
    pub(super) endpoint: String,
    /// Ends and hangs with the node.
    pub(super) sidecar: Option<Sidecar>,
}
