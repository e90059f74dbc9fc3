//! The messages of DLRover's agents, made by DLRover's own classes.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
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
    /// Reported by the first worker: the data that there is.
    #[serde(deserialize_with = "one")]
    pub(in crate::bench) dataset: Bytes,
    /// Asks for a task.
    #[serde(deserialize_with = "one")]
    pub(in crate::bench) task: Bytes,
    /// The report of a finished task; [`Pickles::result_of`] fills in the task.
    #[serde(deserialize_with = "one")]
    result: Bytes,
}

/// The number of a task that no task has, as `pickles.py` and pickle write it: a mark and four bytes.
const ANY_TASK: [u8; 5] = [INT, 0x78, 0x56, 0x34, 0x12];

/// The pickle opcodes of integers of four, two and one byte.
const INT: u8 = b'J';
const SHORT: u8 = b'M';
const BYTE: u8 = b'K';

/// The number of a task, as pickle writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) struct TaskId([u8; 4]);

impl TaskId {
    /// Reads the number out of a pickled task. Unpickling runs code, and takes a Python; the one field is enough here.
    pub(in crate::bench) fn of(task: &[u8]) -> Result<TaskId> {
        // The name, and then an opcode that remembers it.
        const NAME: &[u8] = b"task_id\x94";
        let at = task.windows(NAME.len()).position(|name| name == NAME).context("no task in DLRover's answer")?;
        let number = match task[at + NAME.len()..] {
            [BYTE, low, ..] => [low, 0, 0, 0],
            [SHORT, low, high, ..] => [low, high, 0, 0],
            [INT, a, b, c, d, ..] => [a, b, c, d],
            _ => bail!("DLRover's master gave a task without a number"),
        };
        ensure!(i32::from_le_bytes(number) >= 0, "DLRover's master has no task left");
        Ok(TaskId(number))
    }
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

    /// The report that this task is finished.
    pub(in crate::bench) fn result_of(&self, task: TaskId) -> Result<Bytes> {
        let mut result = self.result.to_vec();
        let at = result.windows(ANY_TASK.len()).position(|number| number == ANY_TASK);
        let at = at.context("the result that DLRover's classes made names no task")?;
        result[at + 1..at + ANY_TASK.len()].copy_from_slice(&task.0);
        Ok(result.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_task_is_read_in_every_width() {
        let task = |number: &[u8]| [b"\x8c\x07task_id\x94".as_slice(), number, b"\x8c\x05shard\x94"].concat();
        assert_eq!(TaskId::of(&task(&[BYTE, 7])).unwrap(), TaskId([7, 0, 0, 0]));
        assert_eq!(TaskId::of(&task(&[SHORT, 0, 1])).unwrap(), TaskId([0, 1, 0, 0]));
        assert_eq!(TaskId::of(&task(&[INT, 1, 2, 3, 4])).unwrap(), TaskId([1, 2, 3, 4]));
        assert!(TaskId::of(&task(&[INT, 255, 255, 255, 255])).unwrap_err().to_string().contains("no task left"));
        assert!(TaskId::of(b"nothing").is_err());
    }
}
