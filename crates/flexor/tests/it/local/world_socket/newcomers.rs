//! Tests nodes that join a world of surviving processes: the world does not wait for their start.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use flexor_testbed::skip;

use super::super::faults::deadline::throughout;
use super::super::launch::folder::WAIT;
use super::super::launch::launcher::{Launcher, end_well};
use super::world_reports;
use super::{has_python, hasty_node, job, one_more, worker};

macro_rules! python_or_skip {
    () => {
        if !has_python() {
            skip!("there is no python3");
        }
    };
}

#[test]
fn the_world_does_not_wait_for_a_newcomer_that_starts_slowly() {
    python_or_skip!();
    let job = job(2);
    let mut nodes = vec![hasty_node(&job, &worker("")), hasty_node(&job, &worker(""))];
    let first = world_reports::await_world(&job.folder, |world| world.len() == 2);
    job.expect(3);
    let slow = format!("echo $$ >> slow; until [ -e imported ]; do sleep 0.1; done; {}", worker(""));
    nodes.push(hasty_node(&job, &slow));
    job.folder.await_lines("slow", 1);
    // Longer than the three seconds in which survivors must enter a world, and than any last call.
    throughout(Duration::from_secs(5), || assert_eq!(job.folder.lines("told").len(), 2, "{}", job.folder.read("told")));
    fs::write(job.folder.path().join("imported"), "").unwrap();
    let second = world_reports::await_world(&job.folder, |world| world.len() == 3);
    world_reports::assert_world(&second, &first.iter().map(|report| report.pid).collect());
    assert_eq!(second[0].world.round, first[0].world.round + 1, "one change");
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.folder.lines("slow").len(), 1, "it was started once");
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_newcomer_that_ignores_the_socket_is_restarted_inside_the_world_after_its_deadline() {
    python_or_skip!();
    let job = job(1);
    let first = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    job.expect(2);
    let stranger = hasty_node(&job, &format!("echo rank $RANK >> strangers; {WAIT}"));
    // Thirty times as long as the second that others have to leave their world.
    let second = world_reports::await_world(&job.folder, |world| world[0].world.world_size == 2);
    let rank = 1 - second[0].world.rank;
    assert_eq!(job.folder.await_lines("strangers", 2), ["rank".to_owned(), format!("rank {rank}")]);
    job.folder.let_go();
    end_well([first, stranger]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_newcomer_that_fails_without_a_rank_is_restarted_inside_the_world_at_once() {
    python_or_skip!();
    let job = job(1);
    let first = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    let stranger = one_more(&job, 1, &format!("echo ${{RANK:?}} >> strangers; {WAIT}"));
    world_reports::await_world(&job.folder, |world| world[0].world.world_size == 2);
    assert_eq!(job.folder.await_lines("strangers", 1).len(), 1);
    job.folder.let_go();
    end_well([first, stranger]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn workers_that_start_outside_have_the_same_environment_except_rank_and_world() {
    python_or_skip!();
    let job = job(1);
    let node = |script: &str| {
        let mut command = job.command();
        command.args(["--nproc-per-node=2", "--virtual-local-rank", "--role=trainer", "sh", "-c", script]);
        command.env("CUDA_VISIBLE_DEVICES", "4,6").env("RANK", "the launcher's own");
        Launcher::start(&mut command)
    };
    let mut nodes = Vec::new();
    for name in ["inside", "outside"] {
        job.expect(nodes.len() + 1);
        nodes.push(node(&format!("env > {name}.${{FLEXOR_WORKER##*/}}; {}", worker(""))));
        world_reports::await_world(&job.folder, |world| world.len() == 2 * nodes.len());
    }
    let of_the_world = |name: &str| {
        ["RANK", "WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"].contains(&name)
            || name.starts_with("GROUP_")
            || name.starts_with("MASTER_")
    };
    let names = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
    };
    for (local, device) in ["4", "6"].iter().enumerate() {
        let [inside, outside] = ["inside", "outside"].map(|name| job.folder.read(&format!("{name}.{local}")));
        let expected: BTreeSet<String> = names(&inside).into_iter().filter(|name| !of_the_world(name)).collect();
        assert_eq!(names(&outside), expected);
        let devices = format!("CUDA_VISIBLE_DEVICES={device}");
        for line in ["LOCAL_RANK=0", &devices, "OMP_NUM_THREADS=1", "ROLE_NAME=trainer", "TORCHELASTIC_MAX_RESTARTS=0"]
        {
            assert!(outside.lines().any(|one| one == line), "{line}: {outside}");
        }
    }
    job.folder.let_go();
    end_well(nodes);
}
