//! Tests killed launchers: their workers end with them, and the other nodes continue.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::WAIT;
use super::job::Job;
use super::launcher::{Launcher, await_gone, end_well};

/// A script that writes its identity and its world; `node` is the launcher.
fn reporting_script() -> String {
    format!("echo $PPID $$ $RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT >> told; {WAIT}")
}

struct WorkerReport {
    launcher: String,
    pid: String,
    rank: usize,
    world: usize,
    restarts: usize,
}

/// The reports of the processes, once there are this many.
fn reports(job: &Job, count: usize) -> Vec<WorkerReport> {
    let words = |line: String| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let number = |index: usize| words[index].parse().unwrap();
        WorkerReport {
            launcher: words[0].clone(),
            pid: words[1].clone(),
            rank: number(2),
            world: number(3),
            restarts: number(4),
        }
    };
    job.folder.await_lines("told", count).into_iter().map(words).collect()
}

/// Three nodes of two processes; the others continue without the node whose processes have these ranks.
fn the_others_go_on_without(ranks: std::ops::Range<usize>) {
    let job = Job::start("2:3", "0");
    let mut nodes: Vec<Launcher> = (0..3).map(|_| job.node(2, &reporting_script())).collect();
    let first = reports(&job, 6);
    assert!(first.iter().all(|process| process.world == 6));
    let lost = &first.iter().find(|process| process.rank == ranks.start).unwrap().launcher;
    let position = nodes.iter().position(|node| node.id().to_string() == *lost).unwrap();
    let node = nodes.remove(position);
    node.signal(Signal::SIGKILL);
    let workers: Vec<_> = first.iter().filter(|process| ranks.contains(&process.rank)).collect();
    assert!(workers.len() == 2 && workers.iter().all(|process| process.launcher == *lost));
    workers.iter().for_each(|process| await_gone(&process.pid));
    let second = &reports(&job, 10)[6..];
    assert!(second.iter().all(|process| process.world == 4 && process.restarts == 0), "a loss costs nothing");
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(reports(&job, 10).len(), 10, "each process was started once for it");
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn the_others_go_on_when_a_launcher_is_killed() {
    the_others_go_on_without(2..4);
}

#[test]
fn the_others_go_on_when_the_launcher_of_rank_0_is_killed() {
    the_others_go_on_without(0..2);
}

#[test]
fn a_killed_process_is_a_failure_of_the_program_and_restarts_all_workers() {
    let job = Job::start("2", "1");
    let nodes = [job.node(1, &reporting_script()), job.node(1, &reporting_script())];
    let first = reports(&job, 2);
    kill(Pid::from_raw(first[0].pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    let second = &reports(&job, 4)[2..];
    assert!(second.iter().all(|process| process.world == 2));
    await_gone(&first[1].pid);
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.run()["programFailures"], 1, "{}", job.run());
}

#[test]
fn a_new_node_replaces_a_killed_one() {
    let job = Job::start("2", "0");
    let [lost, other] = [job.node(1, &reporting_script()), job.node(1, &reporting_script())];
    reports(&job, 2);
    drop(lost);
    let new = job.node(1, &reporting_script());
    let second = &reports(&job, 4)[2..];
    assert!(second.iter().all(|process| process.world == 2 && process.restarts == 0));
    job.folder.let_go();
    end_well([other, new]);
}

#[test]
fn a_launcher_that_hangs_is_lost_and_joins_again_when_it_wakes() {
    let job = Job::start("2:3", "0");
    let nodes = [(); 3].map(|()| job.node(1, &reporting_script()));
    let first = reports(&job, 3);
    let rank_0 = first.iter().find(|process| process.rank == 0).unwrap();
    let hanging = nodes.iter().find(|node| node.id().to_string() == rank_0.launcher).unwrap();
    hanging.signal(Signal::SIGSTOP);
    let second = &reports(&job, 5)[3..];
    assert!(second.iter().all(|process| process.world == 2 && process.restarts == 0));
    hanging.signal(Signal::SIGCONT);
    let third = &reports(&job, 8)[5..];
    assert!(third.iter().all(|process| process.world == 3 && process.restarts == 0));
    await_gone(&rank_0.pid);
    job.folder.let_go();
    end_well(nodes);
}
