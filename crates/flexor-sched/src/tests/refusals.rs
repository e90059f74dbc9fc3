//! What the planner must not do: EDL's planner of 2017 did each of these. The numbers are those of the defects in
//! `spec/autoscaling.md` 2.7.

use super::fixture::*;
use crate::{Pod, PodShape, Rule, Shortage, SizedJob, Taint, TaintEffect};

#[test]
fn d1_room_in_sum_is_not_room_on_a_node() {
    // 2 nodes with 3 free cores each: 6 in sum, and none for a pod of 4.
    let mut world = World::of(2, 5);
    world.jobs.push(trainers("a", 1, 2, 2, cores(2)));
    world.rest();
    world.jobs.push(trainers("b", 2, 1, 1, cores(4)));
    let plan = world.plan();
    assert_eq!(
        plan.shortage(&"b".into()).unwrap().to_string(),
        "trainer needs room for 1 pods; the nodes have room for 0"
    );
}

#[test]
fn d1_a_gang_that_fits_on_no_node_gets_room_at_once() {
    let mut world = World::of(2, 5);
    world.jobs.push(trainers("a", 1, 1, 9, cores(2)));
    world.rest();
    assert_eq!(world.size("a"), 4);
    world.jobs.push(trainers("b", 2, 1, 1, cores(4)));
    world.step();
    world.drain();
    world.step();
    assert_eq!((world.size("a"), world.size("b")), (2, 1));
}

#[test]
fn d3_cards_count_on_each_node() {
    let mut world = World::default();
    for at in 0..3 {
        world.nodes.push(node(&format!("n{at}"), resources(&[("cpu", "8"), ("nvidia.com/gpu", "1")])));
    }
    world.jobs.push(trainers("a", 1, 1, 9, resources(&[("cpu", "1"), ("nvidia.com/gpu", "1")])));
    world.step();
    assert_eq!(world.size("a"), 3);
    world.jobs.push(trainers("b", 2, 1, 1, resources(&[("nvidia.com/gpu", "2")])));
    assert!(matches!(world.plan().held[0].shortage, Shortage::Fragments { pods: 1, fit: 0, .. }));
}

#[test]
fn d4_nodes_that_accept_no_pod_of_the_job_do_not_count() {
    let mut world = World::of(4, 4);
    world.nodes[0].schedulable = false;
    world.nodes[1].taints =
        vec![Taint { key: "online".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }];
    world.nodes[2].labels.insert("zone".to_owned(), "a".to_owned());
    let mut job = trainers("a", 1, 1, 100, cores(1));
    job.roles[0].pod.node_selector.insert("zone".to_owned(), "a".to_owned());
    world.jobs = vec![job, trainers("b", 2, 1, 100, cores(1))];
    world.rest();
    assert_eq!((world.size("a"), world.size("b")), (4, 4));
    world.jobs.push(SizedJob { roles: vec![role("trainer", 9, 9, cores(1))], ..trainers("c", 3, 9, 9, cores(1)) });
    assert_eq!(world.plan().held[0].shortage.to_string(), "needs 9 cores; the nodes that accept it have 8");
}

#[test]
fn d6_room_that_drains_is_not_freed_twice() {
    let mut world = World::of(1, 10);
    world.jobs.push(trainers("a", 1, 1, 100, cores(1)));
    world.rest();
    world.jobs.push(trainers("b", 2, 4, 4, cores(1)));
    world.step();
    assert_eq!(world.size("a"), 6);
    for _ in 0..5 {
        assert!(world.step().roles.is_empty(), "as long as it drains nothing else ends");
    }
}

#[test]
fn d8_a_late_job_gets_its_share() {
    let mut world = World::of(10, 10);
    for late in 0..5 {
        world.jobs.push(trainers(&format!("job{late}"), late, 1, 61, cores(1)));
        world.rest();
    }
    assert_eq!((0..5).map(|at| world.size(&format!("job{at}"))).collect::<Vec<_>>(), [20; 5]);
}

#[test]
fn d9_d10_equal_names_in_two_namespaces_are_two_jobs_in_a_fixed_order() {
    let mut world = World::of(1, 7);
    world.jobs = vec![trainers("b/mnist", 1, 1, 9, cores(1)), trainers("a/mnist", 1, 1, 9, cores(1))];
    let plan = world.plan();
    world.jobs.reverse();
    assert_eq!(world.plan(), plan);
    world.step();
    assert_eq!((world.size("a/mnist"), world.size("b/mnist")), (4, 3));
}

#[test]
fn d11_d12_surplus_that_does_not_start_is_given_up_and_growth_rests() {
    let mut world = World::of(1, 8);
    world.jobs = vec![trainers("a", 1, 1, 6, cores(1)), trainers("b", 2, 1, 1, cores(1))];
    world.step();
    let is_stuck = |pod: &&mut Pod| pod.owner.as_ref().is_some_and(|o| o.job.as_str() == "a" && o.rank.0 == 5);
    world.pods.iter_mut().filter(is_stuck).for_each(|pod| pod.overdue = true);
    let plan = world.step();
    assert_eq!((plan.not_started, world.target("a")), (vec!["a".into()], 5));
    assert_eq!(plan.roles[0].changes(), [(Rule::NotStarted, -1)]);
    assert!(world.step().roles.is_empty(), "no second try while growth is paused");
    world.jobs[0].growth_paused = false;
    world.step();
    assert_eq!(world.target("a"), 6);
}

#[test]
fn d16_the_last_card_is_given_once() {
    let mut world = World::default();
    world.nodes.push(node("n", resources(&[("cpu", "64"), ("nvidia.com/gpu", "8")])));
    world.jobs.push(trainers("a", 1, 1, 20, resources(&[("cpu", "1"), ("nvidia.com/gpu", "1")])));
    world.step();
    assert_eq!(world.size("a"), 8);
    assert!(world.step().roles.is_empty());
}

#[test]
fn d17_memory_is_a_resource_like_any_other() {
    let mut world = World::default();
    world.nodes.push(node("n", resources(&[("cpu", "64"), ("memory", "16Gi")])));
    world.jobs.push(trainers("a", 1, 1, 20, resources(&[("cpu", "1"), ("memory", "3Gi")])));
    world.rest();
    assert_eq!(world.size("a"), 5);
    world.jobs.push(trainers("b", 2, 1, 1, resources(&[("memory", "8Gi")])));
    world.rest();
    assert_eq!((world.size("a"), world.size("b")), (2, 1));
}

#[test]
fn d19_no_pod_is_created_into_room_that_still_drains() {
    let mut world = World::of(1, 4);
    world.jobs.push(trainers("a", 1, 4, 4, cores(1)));
    world.rest();
    world.jobs[0].roles[0].max = 2;
    world.jobs[0].roles[0].min = 2;
    world.jobs.push(trainers("b", 2, 2, 2, cores(1)));
    let plan = world.step();
    assert_eq!(plan.role(&"a".into(), &trainer()).unwrap().changes(), [(Rule::AboveMax, -2)]);
    assert_eq!((world.size("a"), world.size("b"), plan.promises.len()), (2, 0, 2));
}

#[test]
fn a_limit_on_the_number_of_pods_is_kept() {
    let mut world = World::default();
    world.nodes.push(node("n", resources(&[("cpu", "64"), ("pods", "10")])));
    world.pods.push(foreign("n", cores(1)));
    world.jobs.push(trainers("a", 1, 1, 20, cores(1)));
    world.step();
    assert_eq!(world.size("a"), 9);
}

#[test]
fn pods_that_ask_for_nothing_are_not_limited() {
    let mut world = World::of(1, 1);
    let mut job = trainers("a", 1, 1, 20, cores(0));
    job.roles[0].pod = PodShape::default();
    world.jobs.push(job);
    world.step();
    assert_eq!(world.size("a"), 20);
}
