//! A client for the parts of a master's `/api` that tests read.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use super::two_networks::Namespace;

/// An answer takes milliseconds; a master that hangs must not hang its test.
const DEADLINE: Duration = Duration::from_secs(20);

/// A run, as `/api/status` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunStatus {
    /// Its name.
    pub run: String,
    /// The round of the world, if there is one.
    pub round: Option<u64>,
    /// How many are in the world.
    pub world_size: usize,
    /// How many times the program has failed.
    pub program_failures: u32,
    /// Whether the run accepts no more nodes.
    pub closed: bool,
    /// Why things are as they are.
    pub status: StatusCause,
    /// The members that are alive.
    pub members: Vec<Member>,
}

/// Why things are as they are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct StatusCause {
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// A member of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Member {
    /// Its name: address, process and number of a torchrun.
    pub node: String,
    /// The pod that its sidecar reported.
    pub pod: Option<String>,
    /// Its rank, if it is in the world.
    pub rank: Option<u32>,
}

/// A decision of the master, as `/api/events` shows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// When.
    #[serde(deserialize_with = "micros_since_epoch")]
    pub at: SystemTime,
    /// The node that it is about, if it is about one.
    pub node: Option<String>,
    pub what: String,
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub detail: String,
}

fn micros_since_epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    u64::deserialize(deserializer).map(|micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros))
}

/// `/api/status` of the master at `address`.
pub(super) fn status(
    address: &str,
    token: Option<&str>,
    network: Option<&Namespace>,
) -> anyhow::Result<Vec<RunStatus>> {
    #[derive(Deserialize)]
    struct Status {
        runs: Vec<RunStatus>,
    }
    Ok(get::<Status>(address, "/api/status", token, network)?.runs)
}

/// `/api/events` of the master at `address`.
pub(super) fn decisions(
    address: &str,
    token: Option<&str>,
    network: Option<&Namespace>,
) -> anyhow::Result<Vec<Decision>> {
    #[derive(Deserialize)]
    struct Events {
        decisions: Vec<Decision>,
    }
    Ok(get::<Events>(address, "/api/events?limit=1000", token, network)?.decisions)
}

/// One plain GET with HTTP 1.0, so that the end of the connection ends the body.
fn get<T: DeserializeOwned>(
    address: &str,
    path: &str,
    token: Option<&str>,
    network: Option<&Namespace>,
) -> anyhow::Result<T> {
    let asking = || format!("ask http://{address}{path}");
    let mut stream = match network {
        Some(network) => network.connect(address),
        None => TcpStream::connect(address).map_err(Into::into),
    }
    .with_context(asking)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{authorization}\r\n").with_context(asking)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(asking)?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(asking)?;
    let status = head.split(' ').nth(1);
    if status != Some("200") {
        bail!("http://{address}{path} answered {head}: {body}");
    }
    serde_json::from_str(body).with_context(|| format!("http://{address}{path} answered {body}"))
}
