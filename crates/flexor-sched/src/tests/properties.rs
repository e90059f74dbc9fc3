//! Random histories of random clusters. After every plan the invariants of the README must hold.

mod invariants;
mod worlds;

use proptest::prelude::*;

use self::invariants::check_plan;
use self::worlds::{Event, any_event, any_world, one_class_world};
use super::fixture::World;
use crate::{Location, PlanInput, RoleDecision, plan};

/// Checks a plan, carries it out, and checks that the next one has nothing to do.
fn plan_and_check(world: &mut World) -> Result<(), TestCaseError> {
    let plan = world.plan();
    check_plan(world, &plan)?;
    world.apply(&plan);
    let again = world.plan();
    prop_assert!(again.changes_nothing(&world.promises), "planning again changes something: {:?}", again);
    prop_assert_eq!(&again.held, &plan.held);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_of_every_history_keeps_the_invariants(
        mut world in any_world(),
        events in proptest::collection::vec(any_event(), 1..24),
    ) {
        for event in events {
            event.happen(&mut world);
            plan_and_check(&mut world)?;
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        mut world in any_world(),
        events in proptest::collection::vec(any_event(), 1..12),
    ) {
        for event in events {
            event.happen(&mut world);
            let first = world.plan();
            let mut other = world.clone();
            other.nodes.reverse();
            other.pods.reverse();
            other.jobs.reverse();
            other.promises.reverse();
            prop_assert_eq!(&plan(&other.input()), &first);
            world.apply(&first);
        }
    }

    #[test]
    fn a_cluster_that_is_left_alone_comes_to_rest(
        mut world in any_world(),
        events in proptest::collection::vec(any_event(), 1..12),
    ) {
        for event in events {
            event.happen(&mut world);
            let plan = world.plan();
            world.apply(&plan);
        }
        // Panics without rest.
        world.rest();
        let is_at_rest = |location: &Location| matches!(location, Location::Bound(_) | Location::Unassigned);
        prop_assert!(world.pods.iter().all(|pod| pod.owner.is_none() || is_at_rest(&pod.location)));
        prop_assert!(world.promises.is_empty());
    }

    #[test]
    fn another_node_shrinks_nobody_at_rest(mut world in any_world(), extra in worlds::any_node(99)) {
        world.rest();
        world.swaps = 0;
        prop_assume!(world.plan().held.is_empty());
        world.nodes.push(extra);
        let plan = world.plan();
        for decision in &plan.roles {
            prop_assert!(decision.to >= decision.from && decision.remove.is_empty(), "{}", decision);
        }
    }

    #[test]
    fn with_one_class_of_pods_more_capacity_shrinks_nobody_and_shares_are_water_filling(
        mut small in one_class_world(),
        cores in 1_u32..20,
    ) {
        let mut large = small.clone();
        large.nodes.push(super::fixture::node("n99", super::fixture::cores(cores)));
        small.rest();
        large.rest();
        prop_assume!(small.plan().held.is_empty());
        for job in &small.jobs {
            let key = job.key.as_str();
            prop_assert!(small.size(key) <= large.size(key), "{key}: {} and {}", small.size(key), large.size(key));
        }
        invariants::is_water_filling(&small)?;
        invariants::is_water_filling(&large)?;
    }

    #[test]
    fn a_plan_of_nonsense_ends(world in worlds::nonsense()) {
        let PlanInput { jobs, .. } = world.input();
        let plan = world.plan();
        for decision in &plan.roles {
            let job = jobs.iter().find(|job| job.key == decision.job).unwrap();
            let role = job.roles.iter().find(|role| role.name == decision.role).unwrap();
            prop_assert!(decision.to <= role.max.max(role.min));
        }
    }
}

#[test]
fn histories_reach_every_rule() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    let history = (any_world(), proptest::collection::vec(any_event(), 24));
    for _ in 0..150 {
        let (mut world, events): (World, Vec<Event>) = history.new_tree(&mut runner).unwrap().current();
        for event in events {
            event.happen(&mut world);
            let plan = world.plan();
            seen.extend(plan.roles.iter().flat_map(RoleDecision::changes).map(|(rule, _)| rule.name()));
            seen.extend(plan.roles.iter().flat_map(|d| &d.remove).map(|removal| removal.rule.name()));
            seen.extend((!plan.held.is_empty()).then_some("held"));
            seen.extend((!plan.promises.is_empty()).then_some("promises"));
            world.apply(&plan);
        }
    }
    let all = ["AboveMax", "Base", "Growth", "Lost", "NotStarted", "PlaceGone", "RoomFor", "Swap", "SwapTo"];
    assert!(all.iter().chain(&["held", "promises"]).all(|name| seen.contains(name)), "only {seen:?}");
}
