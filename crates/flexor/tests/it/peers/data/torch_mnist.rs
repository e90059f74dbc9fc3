//! Tests `examples/torch-mnist` with `--shards`: model and data roll back together, and the final model has trained
//! every sample once per epoch.

use std::process::Command;

use flexor_testbed::{Torch, torch_or_skip};
use nix::sys::signal::{Signal, kill};

use super::super::job::{DEADLINE, EXAMPLE};
use crate::{
    local::{
        data::{kills::children, report::Report},
        launch::{
            folder::Folder,
            job::Job,
            launcher::{Launcher, LauncherOutput, launch},
        },
    },
    program::root,
};

/// Two epochs of 6000 digits in batches of 96.
const SAMPLES: u64 = 12_000;
const BATCH: u64 = 96;
const ALL_STEPS: u64 = 126;

/// Starts the example with its data in shards: a checkpoint every ten steps, a line for each.
fn start(command: &mut Command, torch: &Torch) -> Launcher {
    command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo");
    command.arg(root().join(EXAMPLE)).args(["--shards", "--checkpoint-every", "10", "--log-every", "1"]);
    Launcher::start(command.args(["--sleep", "0.1"])).patient(DEADLINE)
}

/// The moment when its processes have made a step that no checkpoint has, for the first time.
fn await_step(launcher: &Launcher, step: u64) {
    launcher.await_stdout(&format!(" step {step} loss "), 1);
}

/// Every number that follows this text.
fn numbers_after(printed: &str, words: &str) -> Vec<u64> {
    let behind = printed.split(words).skip(1);
    behind.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()).collect()
}

/// Checks that it was trained to the end, with every sample accounted for, and has learnt something. Returns the
/// samples repeated since a checkpoint.
///
/// The last lines count: now and then torch aborts a finished process because of a thread of gloo's. The restarted
/// process finds nothing to do and prints its lines again.
fn assert_learnt(printed: &str) -> u64 {
    let right = numbers_after(printed, &format!("done after {ALL_STEPS} steps: "));
    assert!(right.last().is_some_and(|percent| *percent > 70), "{printed}");
    let books = format!("samples: expected {SAMPLES} accounted {SAMPLES} quarantined 0 outstanding 0 rewound ");
    *numbers_after(printed, &books).last().unwrap_or_else(|| panic!("no {books:?} in {printed}"))
}

/// By how many samples the data was rolled back, by the output of each start.
fn rolled_back_samples(printed: &str) -> u64 {
    numbers_after(printed, "the data is back where the checkpoint was written: ").iter().sum()
}

#[test]
fn on_one_machine_a_killed_worker_costs_the_steps_since_the_checkpoint() {
    let torch = torch_or_skip!();
    let folder = Folder::new();
    let launcher = start(&mut launch(&folder, ["--standalone", "--nproc-per-node=2"]), &torch);
    await_step(&launcher, 23);
    kill(*children(launcher.id()).last().unwrap(), Signal::SIGKILL).unwrap();
    let LauncherOutput { stdout, .. } = launcher.wait_for(0);
    let rewound = assert_learnt(&stdout);
    assert!(rewound > 0 && rewound.is_multiple_of(BATCH), "{stdout}");
    assert_eq!(rolled_back_samples(&stdout), rewound, "{stdout}");
}

/// Its master ends with it, and the next one starts from the checkpoint's position.
#[test]
fn on_one_machine_a_killed_launcher_goes_on_from_the_checkpoint() {
    let torch = torch_or_skip!();
    let folder = Folder::new();
    let again = || start(&mut launch(&folder, ["--standalone", "--nproc-per-node=2"]), &torch);
    let launcher = again();
    await_step(&launcher, 23);
    launcher.signal(Signal::SIGKILL);
    launcher.wait();
    let LauncherOutput { stdout, .. } = again().wait_for(0);
    assert_eq!(numbers_after(&stdout, " starts at step ")[..2], [20, 20], "{stdout}");
    assert_eq!(assert_learnt(&stdout), 0, "the next master was never further: {stdout}");

    let LauncherOutput { stdout, .. } = again().wait_for(0);
    assert!(stdout.contains("checkpoint.pt is of a finished run"), "{stdout}");
    assert_learnt(&stdout);
}

#[test]
fn at_a_master_a_worker_the_master_and_a_launcher_are_killed_and_every_sample_is_accounted_for() {
    let torch = torch_or_skip!();
    let mut job = Job::start("1:2", "3");
    job.expect(2);
    let mut nodes = vec![start(&mut job.command(), &torch), start(&mut job.command(), &torch)];
    await_step(&nodes[0], 23);
    kill(children(nodes[1].id())[0], Signal::SIGKILL).unwrap();
    await_step(&nodes[0], 43);
    job.master.end_with(Signal::SIGKILL);
    job.start_master_again();
    await_step(&nodes[0], 63);
    let killed = nodes.remove(1);
    killed.signal(Signal::SIGKILL);
    let mut printed = killed.wait().stdout;
    nodes.push(start(&mut job.command(), &torch));
    nodes.into_iter().for_each(|node| printed.push_str(&node.wait_for(0).stdout));

    let rewound = assert_learnt(&printed);
    assert!(rewound > 0 && rewound == rolled_back_samples(&printed), "{printed}");
    let report = Report::of("digits", job.master.ports.grpc).unwrap();
    assert!(report.finished, "{report:?}");
    let totals = report.totals;
    assert_eq!((totals.expected, totals.accounted, totals.outstanding), (SAMPLES, SAMPLES, 0), "{report:?}");
    assert_eq!(totals.rewound, rewound, "{report:?}");
    // The batch of rank 0; a launcher that leaves and rejoins changes the world twice.
    assert!(totals.repeated_at_most <= 3 * BATCH, "{report:?}");
}
