//! The controller is killed after every action of every pass; the job comes to the same state.

use flexor_model::{IdRule, NodeId, Quantity, Resources};

use super::world::World;
use crate::controller::*;
use crate::dice::Dice;

/// The state that a history leads to, however often the controller was killed.
#[derive(Debug, PartialEq)]
struct Left {
    pods: Vec<(String, PodPhase)>,
    phase: Phase,
    targets: Vec<u32>,
    plans: Vec<PlanPhase>,
    slots: Vec<SlotLeft>,
}

/// The part of a slot that does not depend on timing.
#[derive(Debug, PartialEq)]
struct SlotLeft {
    id: NodeId,
    relaunches: u32,
    counted: u32,
    more_memory: Option<Quantity>,
    ended_well: Option<bool>,
}

fn left(world: &World) -> Left {
    let mut pods: Vec<_> = world.pods.iter().map(|pod| (pod.name.clone(), pod.phase)).collect();
    pods.sort();
    let slots = world.status.roles.values().flat_map(|role| role.slots.values());
    let slot = |slot: &Slot| SlotLeft {
        id: slot.id,
        relaunches: slot.relaunches,
        counted: slot.history.counted,
        more_memory: slot.more_memory,
        ended_well: slot.end.as_ref().map(|end| end.succeeded),
    };
    Left {
        pods,
        phase: world.status.phase,
        targets: world.status.targets.values().map(|target| target.replicas).collect(),
        plans: world.plans.iter().map(|plan| plan.status.phase).collect(),
        slots: slots.map(slot).collect(),
    }
}

/// A random history of a job. In every second one pods terminate slowly. The controller is killed once, after so many
/// actions.
fn history(seed: u64, ids: IdRule, killed_after: Option<usize>) -> World {
    history_of(seed, ids, killed_after, false)
}

/// The same, by an executor that may keep statuses that may wait to itself.
fn history_of(seed: u64, ids: IdRule, killed_after: Option<usize>, defers: bool) -> World {
    let mut dice = Dice(seed);
    let mut world = World::of(1 + u32::try_from(dice.roll(3)).unwrap(), ids);
    (world.lingers, world.killed_after, world.defers) = (dice.roll(2) == 1, killed_after, defers);
    for number in 0..12 {
        act(&mut world, &mut dice, number);
        world.settle();
        world.pass(1 + dice.roll(4));
    }
    world.pass(700);
    world
}

fn act(world: &mut World, dice: &mut Dice, number: usize) {
    let mut names: Vec<String> = world.running().into_iter().map(str::to_owned).collect();
    names.sort();
    let pick = usize::try_from(dice.roll(names.len().max(1) as u64)).unwrap();
    let (act, size) = (dice.roll(13), 1 + u32::try_from(dice.roll(5)).unwrap());
    let Some(pod) = names.get(pick) else { return };
    if world.status.phase.is_over() {
        return;
    }
    match act {
        0 | 1 => world.vanishes(pod),
        2 => world.exits(pod, 1),
        3 => world.exits(pod, 137),
        4 => world.scale_workers(&format!("plan-{number}"), size),
        5 => world.edit(size),
        6 => world.job.suspended ^= true,
        7 => world.makes_room(pod),
        8 => world.runs_out_of_memory(pod),
        9 => world.let_pods_start(!world.starts),
        10 | 11 => world.migrate(&format!("plan-{number}"), pod, Resources::default()),
        _ => {}
    }
}

#[test]
fn a_controller_that_is_killed_after_any_action_leaves_the_same() {
    flexor_seeds::each(0..60, |seed| {
        for ids in [IdRule::Rank, IdRule::Increasing] {
            let undisturbed = left(&history(seed, ids, None));
            for after in 0.. {
                let disturbed = history(seed, ids, Some(after));
                if disturbed.killed_after.is_some() {
                    break;
                }
                assert_eq!(left(&disturbed), undisturbed, "seed {seed}, {ids:?}, killed after {after} actions");
            }
        }
    });
}

/// What waits to be written when the controller is killed says which losses were noted, and they cost nothing.
#[test]
fn a_status_that_waits_may_be_lost() {
    let of_any_losses = |mut left: Left| {
        left.slots.iter_mut().for_each(|slot| slot.relaunches = 0);
        left
    };
    flexor_seeds::each(0..60, |seed| {
        let undisturbed = of_any_losses(left(&history(seed, IdRule::Rank, None)));
        for after in 0.. {
            let disturbed = history_of(seed, IdRule::Rank, Some(after), true);
            if disturbed.killed_after.is_some() {
                break;
            }
            assert_eq!(of_any_losses(left(&disturbed)), undisturbed, "seed {seed}, killed after {after} actions");
        }
    });
    flexor_seeds::each(0..60, |seed| {
        for after in 0.. {
            let world = history_of(seed, IdRule::Increasing, Some(after), true);
            if world.killed_after.is_some() {
                break;
            }
            match world.status.phase {
                Phase::Running => assert_slots_are_filled_once(&world, seed),
                Phase::Pending | Phase::Suspended | Phase::Succeeded | Phase::Failed => {}
            }
        }
    });
}

#[test]
fn whatever_happens_no_slot_has_two_pods_and_none_is_empty() {
    let (mut running, mut suspended) = (0, 0);
    flexor_seeds::each(0..400, |seed| {
        let ids = if seed % 2 == 0 { IdRule::Rank } else { IdRule::Increasing };
        let world = history(seed, ids, None);
        match world.status.phase {
            Phase::Running => {
                running += 1;
                assert_slots_are_filled_once(&world, seed);
            }
            Phase::Suspended => {
                suspended += 1;
                assert_eq!(world.running(), [""; 0], "seed {seed}: a suspended job has no pods");
            }
            Phase::Succeeded | Phase::Failed => {
                assert_eq!(world.running(), [""; 0], "seed {seed}: a job that is over has no pods");
            }
            Phase::Pending => {}
        }
    });
    let are_many = flexor_seeds::chosen().is_some() || (running >= 60 && suspended >= 60);
    assert!(are_many, "too few of 400 histories were checked: {running} running, {suspended} suspended");
}

fn assert_slots_are_filled_once(world: &World, seed: u64) {
    for role in &world.job.roles {
        for rank in 0..world.status.targets[&role.name].replicas {
            let slot = &world.status.roles[&role.name].slots[&flexor_model::Rank(rank)];
            let here = world.pods.iter().filter(|pod| pod.role == role.name && pod.rank.0 == rank).count();
            assert_eq!(here, 1, "seed {seed}: {} {rank}: {slot:?}", role.name);
        }
    }
}
