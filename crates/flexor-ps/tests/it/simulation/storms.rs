//! Storms: the servers of a job with two replicas are killed one after the other, perhaps with workers.

use super::history::{History, Storm};
use super::play;

/// Histories of each storm.
const STORMS: u64 = 4;

#[test]
fn a_storm_that_waits_for_redundancy_loses_no_update() {
    flexor_seeds::each(0..STORMS, |seed| play(seed, History::storm(seed, Storm::Patient)));
}

#[test]
fn a_storm_that_waits_for_nothing_loses_the_updates_that_the_master_counts() {
    flexor_seeds::each(0..STORMS, |seed| play(seed, History::storm(seed, Storm::Impatient)));
}

/// What a killed worker was acknowledged counts too, and no other worker reports it.
#[test]
fn a_storm_that_kills_workers_too_loses_the_updates_that_the_master_counts() {
    flexor_seeds::each(0..2 * STORMS, |seed| play(seed, History::storm(seed, Storm::WithWorkers)));
}
