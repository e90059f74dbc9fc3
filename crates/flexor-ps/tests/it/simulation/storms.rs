//! Storms: the servers of a job with two replicas are killed one after the other.

use super::history::History;
use super::play;

/// Histories of each storm.
const STORMS: u64 = 4;

#[test]
fn a_storm_that_waits_for_redundancy_loses_no_update() {
    flexor_seeds::each(0..STORMS, |seed| play(seed, History::storm(seed, true)));
}

#[test]
fn a_storm_that_waits_for_nothing_loses_the_updates_that_the_master_counts() {
    flexor_seeds::each(0..STORMS, |seed| play(seed, History::storm(seed, false)));
}
