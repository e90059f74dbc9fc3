//! Tests the example program on three nodes: rank 0 is killed, and training still reaches its end.

use std::{ffi::OsString, path::Path};

use flexor_testbed::{
    flexor_processes::{JobNode, Master},
    torch_or_skip,
    torchrun::AgentConfig,
};

use super::job::{DEADLINE, EXAMPLE, master};
use crate::program::root;

/// Two epochs of 6000 digits in batches of 96.
const ALL_STEPS: u64 = 126;

#[test]
fn training_goes_on_from_its_checkpoint_when_rank_0_is_killed_and_learns_to_the_end() {
    let torch = torch_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("digits.pt");
    let master = Master::start(&torch, master("2:3")).unwrap();
    let start = |number: u32| {
        let config = AgentConfig::new(format!("node-{number}")).env("PET_LOCAL_ADDR", format!("127.1.1.{number}"));
        JobNode::start(&torch, &master, config.script(root().join(EXAMPLE)).args(args(&checkpoint)))
    };
    let mut nodes: Vec<JobNode> = (1..=3).map(|number| start(number).unwrap()).collect();
    for node in &nodes {
        node.agent().await_log(DEADLINE, |log| steps(log).any(|step| step >= 20)).unwrap();
    }

    let first = nodes[0].agent().log();
    assert!(first.contains("rank 0/3 restart 0 starts at step 0"), "{first}");
    nodes.remove(0).kill();
    let logs: Vec<String> = nodes
        .iter()
        .map(|node| {
            assert_eq!(node.agent().await_exit(DEADLINE).unwrap(), 0, "{}", node.agent().log());
            node.agent().log()
        })
        .collect();
    for log in &logs {
        let resumed = log
            .lines()
            .filter(|line| line.contains("/2 restart "))
            .find_map(|line| number_after(line, "starts at step "));
        let resumed = resumed.unwrap_or_else(|| panic!("started again in a world of 2: {log}"));
        assert!(
            (20..ALL_STEPS).contains(&resumed) && resumed % 5 == 0,
            "goes on from a checkpoint, not from {resumed}"
        );
        assert!(steps(log).any(|step| step == ALL_STEPS - ALL_STEPS % 5), "{log}");
    }
    let done = logs.iter().find_map(|log| log.split(&format!("done after {ALL_STEPS} steps: ")).nth(1)).unwrap();
    let right: f64 = done.split(' ').next().unwrap().parse().unwrap();
    assert!(right > 80.0, "{right} % are right");
}

fn args(checkpoint: &Path) -> Vec<OsString> {
    let slowly = ["--checkpoint-every", "5", "--log-every", "5", "--sleep", "0.1", "--checkpoint"];
    slowly.map(OsString::from).into_iter().chain([checkpoint.into()]).collect()
}

/// The steps in a log.
fn steps(log: &str) -> impl Iterator<Item = u64> {
    log.lines().filter(|line| line.contains(" loss ")).filter_map(|line| number_after(line, " step "))
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    line.split(word).nth(1)?.split(' ').next()?.parse().ok()
}
