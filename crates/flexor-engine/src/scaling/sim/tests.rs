//! Simulated jobs come to rest, and a run depends on nothing but its seed.

use super::shape::JobShape;
use super::world::{Order, World};
use crate::scaling::{Proposal, Sizer};

const SECONDS: u64 = 900;
/// More changes than this under a constant load are unrest.
const MOST_CHANGES: usize = 8;

/// A random job of constant load, whose tables are full from the beginning.
fn constant(seed: u64) -> JobShape {
    let mut shape = JobShape::random(seed);
    shape.drift = 1.0;
    shape.table.bytes = 1.0;
    shape
}

/// Sizes a job by our rules. Returns the proposals with their seconds.
fn sized(shape: &JobShape) -> Vec<(u64, Proposal)> {
    let (mut world, mut sizer) = (World::new(shape), Sizer::default());
    let mut proposals = Vec::new();
    for second in 0..SECONDS {
        world.tick();
        let sample = world.sample();
        if let Some(proposal) = sizer.handle(&sample, world.now()).proposal {
            world.carry_out(&Order::of(&proposal, &sample));
            proposals.push((second, proposal));
        }
    }
    proposals
}

#[test]
fn a_job_of_constant_load_comes_to_rest() {
    flexor_seeds::each(0..12, |seed| {
        let changes = sized(&constant(seed));
        let told = || changes.iter().map(|(at, proposal)| format!("{at}: {}\n", proposal.reason())).collect::<String>();
        assert!(changes.len() <= MOST_CHANGES, "{}", told());
    });
}

#[test]
fn a_seed_gives_one_run() {
    flexor_seeds::each(0..2, |seed| {
        let shape = JobShape::random(seed);
        assert_eq!(sized(&shape), sized(&shape));
    });
}
