//! Tests `flexor launch` with PyTorch: the torchrun example under our launcher, to its end.

use std::{path::Path, process::Command};

use flexor_testbed::{Torch, torch_or_skip};
use nix::sys::signal::Signal;

use super::job::{DEADLINE, EXAMPLE};
use crate::{
    local::launch::{
        folder::Folder,
        job::Job,
        launcher::{Launcher, LauncherOutput, launch},
        worlds::free_port,
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

/// Lets two workers of a launch with these options form process groups by an init method.
fn form_groups(torch: &Torch, options: &[&str], args: &[&str]) -> LauncherOutput {
    let folder = Folder::new();
    let program = root().join("crates/flexor/tests/it/peers/process_groups.py");
    let mut command = launch(&folder, ["--nproc-per-node=2", "--max-restarts=0"]);
    command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo").env("TP_SOCKET_IFNAME", "lo");
    let ended = Launcher::start(command.args(options).arg(program).args(args)).patient(DEADLINE).wait_for(0);
    for rank in 0..2 {
        let works = format!("rank {rank} of 2: {} works\n", args[0]);
        assert_eq!(ended.stdout.matches(&works).count(), 1, "{works}: {}", ended.stdout);
    }
    ended
}

#[test]
fn a_process_group_and_an_rpc_group_are_formed_on_one_store() {
    let torch = torch_or_skip!();
    form_groups(&torch, &["--standalone"], &["env://", "rpc"]);
}

#[test]
fn a_process_group_is_formed_at_the_address_of_a_static_rendezvous() {
    let torch = torch_or_skip!();
    let port = free_port();
    let options = ["--run-path", "--nnodes=1", "--master-addr=localhost", "--master-port", &port];
    form_groups(&torch, &options, &[&format!("tcp://localhost:{port}")]);
}

#[test]
fn the_options_of_the_legacy_launcher_are_understood() {
    let torch = torch_or_skip!();
    let port = free_port();
    let options = ["--use_env", "--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1", "--master_port", &port];
    let ended = form_groups(&torch, &options, &["env://"]);
    assert!(!ended.stderr.contains("--use"), "nothing to warn of: {}", ended.stderr);
}

#[test]
fn workers_of_other_nodes_find_the_store_at_the_address_of_a_static_rendezvous() {
    let torch = torch_or_skip!();
    let folder = Folder::new();
    let (port, program) = (free_port(), root().join("crates/flexor/tests/it/peers/process_groups.py"));
    let node = |rank: &str| {
        let mut command = launch(&folder, ["--nnodes=2", "--max-restarts=0", "--node-rank", rank]);
        command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo");
        command.args(["--master-addr=127.0.0.1", "--master-port", &port]).arg(&program);
        Launcher::start(command.arg(format!("tcp://127.0.0.1:{port}"))).patient(DEADLINE)
    };
    for node in ["1", "0"].map(node) {
        assert!(node.wait_for(0).stdout.contains(" works\n"));
    }
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
