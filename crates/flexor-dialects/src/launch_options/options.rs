//! What a command line means, typed: all that the launcher needs to know.

use std::time::Duration;

use flexor_model::Reason;

use super::{
    ForwardedSignal, OutputOptions, Processes, Program, Rendezvous, RendezvousConf,
    given::{Given, Wrong},
    python_number, table,
};
use crate::{Finding, finding::quoted};

/// What a command line of the launcher means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchOptions {
    /// How many nodes the world may have.
    pub nodes: Nodes,
    /// The size of the world is a multiple of this, at least 1.
    pub node_unit: u32,
    /// How many processes this node runs.
    pub processes: Processes,
    /// Where and how the nodes meet.
    pub rendezvous: Rendezvous,
    /// How they meet, in detail.
    pub rendezvous_conf: RendezvousConf,
    /// The address of this node for the others; its name where there is none.
    pub local_addr: Option<String>,
    /// How many failures of the program are forgiven; nodes that are lost or join cost nothing.
    pub max_restarts: u32,
    /// What the user wrote of what a master may have another mind about.
    pub said: Said,
    /// What the processes are called.
    pub role: String,
    /// Where what they print goes.
    pub output: OutputOptions,
    /// The signals that end the launcher and are passed on.
    pub signals: Vec<ForwardedSignal>,
    /// How long processes have to end by themselves.
    pub shutdown_timeout: Duration,
    /// Whether every process sees one GPU, its own, and local rank 0.
    pub virtual_local_rank: bool,
    /// What is launched.
    pub program: Program,
}

/// What stands on the command line, so that whoever wrote it hears when it does not hold. What comes from the environment
/// is set for torchrun in every pod, and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// `--nnodes`.
    pub nodes: bool,
    /// `--max-restarts`.
    pub max_restarts: bool,
}

/// How many nodes a world may have: `1 ≤ min ≤ max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

const USUAL_SHUTDOWN: &str = "30";

impl LaunchOptions {
    /// What was given; none where something is wrong. Every option is looked at, so that all mistakes are told.
    pub(super) fn read(given: &mut Given<'_>, words: Vec<String>) -> Option<Self> {
        let nodes = nodes(given);
        let node_unit = nodes.and_then(|nodes| node_unit(given, nodes));
        let processes = processes(given);
        let rendezvous = Rendezvous::read(given, nodes);
        let rendezvous_conf = RendezvousConf::read(given);
        let max_restarts = given.read(&table::MAX_RESTARTS, count);
        let output = OutputOptions::read(given);
        let signals = given.read(&table::SIGNALS_TO_HANDLE, ForwardedSignal::read_list);
        let shutdown_timeout = shutdown_timeout(given);
        let program = program(given, words);
        Some(Self {
            nodes: nodes?,
            node_unit: node_unit?,
            processes: processes?,
            rendezvous: rendezvous?,
            rendezvous_conf: rendezvous_conf?,
            local_addr: Some(given.value(&table::LOCAL_ADDR).text).filter(|text| !text.is_empty()),
            max_restarts: max_restarts?,
            said: Said {
                nodes: given.is_written(&table::NNODES),
                max_restarts: given.is_written(&table::MAX_RESTARTS),
            },
            role: given.value(&table::ROLE).text,
            output: output?,
            signals: signals?,
            shutdown_timeout: shutdown_timeout?,
            virtual_local_rank: given.flag(&table::VIRTUAL_LOCAL_RANK),
            program: program?,
        })
    }
}

/// What `--nnodes` says, or `NODE_NUM` where `--auto-config` asks it.
fn nodes(given: &mut Given<'_>) -> Option<Nodes> {
    let said = given.read(&table::NNODES, Nodes::read);
    let Some(text) = given.variable("NODE_NUM").map(str::to_owned).filter(|_| given.flag(&table::AUTO_CONFIG)) else {
        return said;
    };
    let counted = given.judge("NODE_NUM", Nodes::read(&text))?;
    if given.has(&table::NNODES) && said? != counted {
        let message = format!("--auto-config takes NODE_NUM instead, which is {}", quoted(&text));
        given.findings.push(Finding::new(Reason::ValueReplaced, table::NNODES.name, message));
    }
    Some(counted)
}

fn node_unit(given: &mut Given<'_>, nodes: Nodes) -> Option<u32> {
    let unit = given.read(&table::NODE_UNIT, |text| match count(text)? {
        0 => Err(Wrong::new("a world cannot be a multiple of 0 nodes", "write a number from 1 on")),
        unit => Ok(unit),
    })?;
    if nodes.max / unit * unit < nodes.min {
        let Nodes { min, max } = nodes;
        let message = format!("no multiple of {unit} lies between the {min} and {max} nodes of --nnodes");
        given.refuse(&table::NODE_UNIT, message, "choose a smaller unit, or more nodes");
        return None;
    }
    Some(unit)
}

fn processes(given: &mut Given<'_>) -> Option<Processes> {
    let said = given.read(&table::NPROC_PER_NODE, Processes::read)?;
    Some(match said {
        Processes::Count(count) if given.flag(&table::AUTO_CONFIG) => Processes::GpusOr(count),
        Processes::Count(_) | Processes::Each(_) | Processes::Auto | Processes::GpusOr(_) => said,
    })
}

fn shutdown_timeout(given: &mut Given<'_>) -> Option<Duration> {
    let seconds = |text: &str| count(text).map(|seconds| Duration::from_secs(seconds.into()));
    if let Some(said) = given.read_some(&table::SHUTDOWN_TIMEOUT, seconds)? {
        return Some(said);
    }
    let inherited = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    let text = given.variable(inherited).unwrap_or(USUAL_SHUTDOWN).to_owned();
    given.judge(inherited, seconds(&text))
}

fn program(given: &mut Given<'_>, words: Vec<String>) -> Option<Program> {
    if words.first().is_none_or(String::is_empty) {
        let finding = Finding::new(Reason::MissingField, "PROGRAM", "what to launch is missing");
        given
            .findings
            .push(finding.help("write it behind the options: flexor launch --nproc-per-node=2 train.py --lr=0.1"));
        return None;
    }
    let program = Program::of(words, given);
    if program.is_none() {
        let help = "leave out --no-python or --module";
        given.refuse(&table::NO_PYTHON, "a module cannot be run without Python", help);
    }
    program
}

fn count(text: &str) -> Result<u32, Wrong> {
    let number = python_number::integer(text).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| Wrong::new(format!("{} is not possible", quoted(text)), "write a whole number from 0 on"))
}

impl Nodes {
    /// `N` or `MIN:MAX`.
    fn read(text: &str) -> Result<Self, Wrong> {
        let number = |text: &str| python_number::integer(text).and_then(|number| u32::try_from(number).ok());
        let (min, max) = text.split_once(':').unwrap_or((text, text));
        let (Some(min), Some(max)) = (number(min), number(max)) else {
            let message = format!("{} is no number of nodes", quoted(text));
            return Err(Wrong::new(message, "write MIN:MAX, such as 2:4, or a number"));
        };
        if min == 0 {
            return Err(Wrong::new("a world of 0 nodes cannot train", "write at least 1"));
        }
        if min > max {
            let message = format!("the smallest world ({min}) is larger than the largest ({max})");
            return Err(Wrong::new(message, format!("write {max}:{min}")));
        }
        Ok(Self { min, max })
    }
}
