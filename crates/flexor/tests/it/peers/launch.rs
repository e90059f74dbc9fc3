//! Tests `flexor launch` with PyTorch: the torchrun example under our launcher, to its end.

use std::{path::Path, process::Command};

use flexor_testbed::{Torch, torch_or_skip};
use nix::sys::signal::Signal;

use super::job::{DEADLINE, EXAMPLE};
use crate::{
    local::launch::{
        folder::Folder,
        job::Job,
        launcher::{Launcher, launch},
    },
    program::root,
};

/// Two epochs of 6000 digits in batches of 96.
const ALL_STEPS: u64 = 126;

/// The example with this Python, in the launcher's folder.
fn training<'a>(command: &'a mut Command, torch: &Torch, args: &[&str]) -> &'a mut Command {
    let program: &Path = &root().join(EXAMPLE);
    let often = ["--checkpoint-every", "5", "--log-every", "5"];
    command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo");
    command.arg(program).args(often).args(args)
}

/// How many of the test digits the trained model knows, in percent.
fn right(stdout: &str) -> f64 {
    let done = stdout.split(&format!("done after {ALL_STEPS} steps: ")).nth(1);
    done.unwrap_or_else(|| panic!("{stdout}")).split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_example_trains_to_its_end_on_one_machine() {
    let torch = torch_or_skip!();
    let folder = Folder::new();
    let mut command = launch(&folder, ["--standalone", "--nproc-per-node=2"]);
    let ended = Launcher::start(training(&mut command, &torch, &[])).patient(DEADLINE).wait_for(0);
    for rank in 0..2 {
        let start = format!("rank {rank}/2 restart 0 starts at step 0");
        assert_eq!(ended.stdout.matches(&start).count(), 1, "{}", ended.stdout);
    }
    assert!(right(&ended.stdout) > 80.0, "{}", ended.stdout);
}

#[test]
fn the_example_goes_on_from_its_checkpoint_when_the_node_of_rank_0_is_killed() {
    let torch = torch_or_skip!();
    let job = Job::start("2:3", "0");
    let slowly = ["--sleep", "0.1"];
    let start = |()| Launcher::start(training(&mut job.command(), &torch, &slowly)).patient(DEADLINE);
    let mut nodes: Vec<Launcher> = [(); 3].map(start).into();
    for node in &nodes {
        node.await_stdout(" step 20 loss ", 1);
    }
    let first = nodes.iter().position(|node| node.stdout().contains("rank 0/3 restart 0 starts at step 0")).unwrap();
    nodes.remove(first).signal(Signal::SIGKILL);
    let ended: Vec<_> = nodes.into_iter().map(|node| node.wait_for(0)).collect();
    for node in &ended {
        let again = node.stdout.lines().find(|line| line.contains("/2 restart 0 starts at step ")).unwrap();
        let step: u64 = again.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((20..ALL_STEPS).contains(&step) && step.is_multiple_of(5), "goes on from a checkpoint: {again}");
        assert_eq!(node.stdout.matches(" starts at step ").count(), 2, "once, and once again: {}", node.stdout);
    }
    let message: String = ended.iter().map(|node| node.stdout.as_str()).collect();
    assert!(right(&message) > 80.0, "{message}");
    assert_eq!(job.run()["programFailures"], 0, "a lost node is no failure of the program: {}", job.run());
}
