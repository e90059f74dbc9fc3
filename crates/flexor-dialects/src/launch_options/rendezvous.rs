//! Where and how the nodes meet.

use flexor_model::{Reason, ports};

use super::{
    Address, Nodes, OptionSpec,
    given::{Given, Source, Value, Wrong},
    python_number, table,
};
use crate::{Finding, finding::quoted, suggest::instead};

/// Where and how the nodes meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendezvous {
    /// Nowhere: this machine trains alone.
    Alone,
    /// At an address; nodes come and go, and ranks are given out.
    Elastic {
        /// The address.
        at: Address,
        /// The run that the nodes belong to.
        id: String,
    },
    /// At the node of rank 0; every node says its own rank, and all must be there.
    Static {
        /// The address of the node of rank 0.
        at: Address,
        /// The rank of this node.
        rank: u32,
        /// The run that the nodes belong to.
        id: String,
    },
}

/// The port of a static rendezvous where none is given.
const STATIC_PORT: u16 = 29500;

/// Why nothing is read about meeting others.
const ALONE: &str = "one machine alone meets nobody";

/// The backends that can be meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backend {
    C10d,
    Static,
}

impl Rendezvous {
    /// What was given about it; none where something is wrong. Where the nodes are wrong already, any number will do.
    pub(super) fn read(given: &mut Given<'_>, nodes: Option<Nodes>) -> Option<Self> {
        if given.flag(&table::STANDALONE) {
            return alone(given, nodes, &[&table::RDZV_BACKEND, &table::RDZV_ENDPOINT]);
        }
        let backend = backend(given);
        let port = given.read_some(&table::MASTER_PORT, port);
        let rank = given.read(&table::NODE_RANK, rank);
        let nowhere = given.value(&table::RDZV_ENDPOINT).text.trim().is_empty();
        match backend? {
            Backend::C10d => elastic(given, nodes),
            Backend::Static if nowhere && port?.is_none() && nodes.is_some_and(|nodes| nodes.max == 1) => {
                alone(given, nodes, &[])
            }
            Backend::Static => fixed(given, nodes, port?, rank?),
        }
    }
}

/// One machine, whatever else is said about meeting.
fn alone(given: &mut Given<'_>, nodes: Option<Nodes>, also_unused: &[&OptionSpec]) -> Option<Rendezvous> {
    name_unused(given, also_unused, ALONE);
    name_unused(given, &[&table::RDZV_ID, &table::NODE_RANK, &table::MASTER_ADDR, &table::MASTER_PORT], ALONE);
    if nodes.is_some_and(|nodes| nodes.min > 1) {
        given.refuse(&table::STANDALONE, "is one node, but --nnodes asks for more", "leave out one of them");
        return None;
    }
    Some(Rendezvous::Alone)
}

fn elastic(given: &mut Given<'_>, nodes: Option<Nodes>) -> Option<Rendezvous> {
    let unused = [&table::NODE_RANK, &table::MASTER_ADDR, &table::MASTER_PORT];
    name_unused(given, &unused, "only the static rendezvous reads it");
    let Value { text, field, .. } = given.value(&table::RDZV_ENDPOINT);
    let at = given.judge(&field, Address::read(&text, Some(ports::STORE)))?;
    can_be_found(given, nodes, &at, &table::RDZV_ENDPOINT)?;
    Some(Rendezvous::Elastic { at, id: id(given)? })
}

fn fixed(given: &mut Given<'_>, nodes: Option<Nodes>, port: Option<u16>, rank: u32) -> Option<Rendezvous> {
    let Value { text: endpoint, field, .. } = given.value(&table::RDZV_ENDPOINT);
    let at = if endpoint.trim().is_empty() {
        let Value { text, field, .. } = given.value(&table::MASTER_ADDR);
        let written = format!("{}:{}", text.trim(), port.unwrap_or(STATIC_PORT));
        let at = given.judge(&field, Address::read(&written, None))?;
        can_be_found(given, nodes, &at, &table::MASTER_PORT)?;
        at
    } else {
        name_unused(given, &[&table::MASTER_ADDR, &table::MASTER_PORT], "--rdzv-endpoint says where the nodes meet");
        let at = given.judge(&field, Address::read(&endpoint, None))?;
        can_be_found(given, nodes, &at, &table::RDZV_ENDPOINT)?;
        at
    };
    if let Some(Nodes { max, .. }) = nodes.filter(|nodes| rank >= nodes.max) {
        let message = format!("{rank} is no rank among {max} nodes");
        given.refuse(&table::NODE_RANK, message, format!("write a number from 0 to {}", max - 1));
        return None;
    }
    Some(Rendezvous::Static { at, rank, id: id(given)? })
}

fn id(given: &mut Given<'_>) -> Option<String> {
    given.read(&table::RDZV_ID, |text| match text {
        "" => Err(Wrong::new("is empty", "write the same id on every node")),
        id => Ok(id.to_owned()),
    })
}

/// A free port keeps the others from coming.
fn can_be_found(given: &mut Given<'_>, nodes: Option<Nodes>, at: &Address, said_by: &OptionSpec) -> Option<()> {
    if at.port == 0 && nodes.is_some_and(|nodes| nodes.min > 1) {
        given.refuse(said_by, "other nodes cannot know a free port", "write the same port on every node");
        return None;
    }
    Some(())
}

fn name_unused(given: &mut Given<'_>, specs: &[&OptionSpec], why: &str) {
    for spec in specs {
        let Value { text, field, source } = given.value(spec);
        if source != Source::Default && text != spec.default {
            given.findings.push(Finding::new(Reason::FieldUnused, field, "has no effect").help(why));
        }
    }
}

fn backend(given: &mut Given<'_>) -> Option<Backend> {
    let Value { text, field, .. } = given.value(&table::RDZV_BACKEND);
    let read = match text.as_str() {
        "c10d" => Ok(Backend::C10d),
        "static" => Ok(Backend::Static),
        "dlrover-master" => {
            let message = "dlrover-master is taken as c10d: the nodes meet at the job's master";
            given.findings.push(Finding::new(Reason::ValueReplaced, field.as_str(), message));
            Ok(Backend::C10d)
        }
        "etcd" | "etcd-v2" => {
            Err(Wrong::new("nodes meet at a master of ours, not in etcd", "write c10d; no etcd has to run"))
        }
        other => {
            Err(Wrong::new(format!("{} is no rendezvous backend", quoted(other)), instead(other, ["c10d", "static"])))
        }
    };
    given.judge(&field, read)
}

fn port(text: &str) -> Result<u16, Wrong> {
    let number = python_number::integer(text).and_then(|number| u16::try_from(number).ok());
    number.ok_or_else(|| Wrong::new(format!("{} is no port", quoted(text)), "write a number from 0 to 65535"))
}

fn rank(text: &str) -> Result<u32, Wrong> {
    let number = python_number::integer(text).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| Wrong::new(format!("{} is no rank", quoted(text)), "write a number from 0 on"))
}
