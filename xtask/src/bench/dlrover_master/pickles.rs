//! What DLRover's agents would send, made by DLRover's own classes.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flexor_testbed::Dlrover;
use serde::{Deserialize, Deserializer};

const SCRIPT: &str = include_str!("pickles.py");

/// The pickled requests of a number of nodes; the lists have one for each.
#[derive(Debug, Deserialize)]
pub(in crate::bench) struct Pickles {
    /// Reported by the first node: how many nodes there are.
    #[serde(deserialize_with = "one")]
    pub(in crate::bench) params: Bytes,
    #[serde(deserialize_with = "one")]
    pub(in crate::bench) beat: Bytes,
    #[serde(deserialize_with = "many")]
    pub(in crate::bench) joins: Vec<Bytes>,
    #[serde(deserialize_with = "many")]
    pub(in crate::bench) worlds: Vec<Bytes>,
    /// Reports that store a value.
    #[serde(deserialize_with = "many")]
    pub(in crate::bench) sets: Vec<Bytes>,
    #[serde(deserialize_with = "many")]
    pub(in crate::bench) gets: Vec<Bytes>,
}

impl Pickles {
    pub(in crate::bench) fn make(dlrover: &Dlrover, nodes: usize) -> Result<Pickles> {
        let mut command = dlrover.command();
        command.args(["-c", SCRIPT, &nodes.to_string()]).stdin(Stdio::null());
        let output = command.output().context("cannot start DLRover's Python")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "DLRover's classes made no requests: {}", complaint.trim());
        serde_json::from_slice(&output.stdout).context("the requests of DLRover's classes cannot be read")
    }
}

fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    decoded(&String::deserialize(deserializer)?)
}

fn many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bytes>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| decoded(text)).collect()
}

fn decoded<E: serde::de::Error>(text: &str) -> Result<Bytes, E> {
    STANDARD.decode(text).map(Bytes::from).map_err(E::custom)
}
