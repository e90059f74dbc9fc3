//! Tests `examples/torch-survive` at a master: when a worker is killed, the others continue in their processes. The
//! loss equals that of an undisturbed run.
//!
//! `bench survive` measures how long training pauses.

mod job;

use flexor_testbed::torch_or_skip;

use self::job::{Node, STEPS, Training};

/// The step of the fault: well before the end, because a killed worker has to import torch again.
const A_WHILE: u64 = 20;

/// Kills the worker of this rank among three. The others continue without it, it rejoins, and all succeed.
fn the_others_go_on_without_the_worker_of(rank: usize) {
    let mut training = Training::start(torch_or_skip!(), 3);
    training.await_step(A_WHILE);
    let killed = training.position_of(rank);
    let first = training.nodes[killed].last_step().pid;
    training.nodes[killed].kill_worker();
    training.end();
    for (position, node) in training.nodes.iter().enumerate() {
        let steps = node.steps();
        if position == killed {
            let after: Vec<_> = steps.iter().filter(|step| step.pid != first).collect();
            assert!(!after.is_empty(), "it has come back; {}", node.printed());
            assert!(after.iter().all(|step| step.pid == after[0].pid && step.world == 3), "once: {after:?}");
            assert!(after.iter().all(|step| step.rank != 0), "rank 0 is a worker with the model: {after:?}");
            assert!(after[0].step > A_WHILE, "it takes over what the others have learned: {:?}", after[0]);
        } else {
            assert_goes_on(node, &[3, 2, 3]);
        }
    }
    training.assert_as_undisturbed();
    assert_eq!(training.job.run()["programFailures"], 0, "{}", training.job.run());
}

/// That a node kept its process, through worlds of these sizes, and lost no more than the step in flight.
fn assert_goes_on(node: &Node, worlds: &[usize]) {
    let steps = node.steps();
    assert!(steps.iter().all(|step| step.pid == steps[0].pid), "it was not started again; {}", node.printed());
    let mut sizes: Vec<usize> = steps.iter().map(|step| step.world).collect();
    sizes.dedup();
    assert_eq!(sizes, worlds, "{}", node.printed());
    for pair in steps.windows(2) {
        // The step in flight is made again if rank 0 had not finished it, and taken over if only rank 0 had.
        let next = pair[0].step..=pair[0].step + 2;
        assert!(next.contains(&pair[1].step), "{pair:?}; {}", node.printed());
    }
}

#[test]
fn the_others_go_on_in_their_processes_when_the_worker_of_rank_0_is_killed() {
    the_others_go_on_without_the_worker_of(0);
}

#[test]
fn the_others_go_on_in_their_processes_when_the_worker_of_rank_1_is_killed() {
    the_others_go_on_without_the_worker_of(1);
}

#[test]
fn the_others_go_on_in_their_processes_when_the_node_of_rank_0_is_killed() {
    let mut training = Training::start(torch_or_skip!(), 3);
    training.await_step(A_WHILE);
    let lost = training.nodes.remove(training.position_of(0));
    lost.kill();
    training.end();
    training.nodes.iter().for_each(|node| assert_goes_on(node, &[3, 2]));
    training.assert_as_undisturbed();
}

#[test]
fn a_newcomer_receives_the_model_and_no_other_worker_restarts() {
    let mut training = Training::start(torch_or_skip!(), 2);
    training.await_step(A_WHILE);
    training.add();
    training.end();
    let [first, second, newcomer] = &training.nodes[..] else { panic!("three nodes") };
    [first, second].into_iter().for_each(|node| assert_goes_on(node, &[2, 3]));
    let steps = newcomer.steps();
    assert!(steps.iter().all(|step| step.rank == 2 && step.world == 3), "{}", newcomer.printed());
    assert!((A_WHILE..STEPS).contains(&(steps[0].step - 1)), "it begins where the others are: {:?}", steps[0]);
    training.assert_as_undisturbed();
}
