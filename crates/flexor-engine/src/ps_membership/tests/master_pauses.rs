//! Pauses of the master process do not count against deadlines: servers could not reconnect or report meanwhile.

use flexor_model::MapEpoch;

use super::super::{DesiredServers, Mode};
use super::{Story, server};

#[test]
fn a_disconnected_server_is_not_lost_by_a_pause_of_the_master() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.pause_master(20);
    story.advance(1);
    assert_eq!(*story.members.map(), map, "it has had no time to reconnect");
    story.advance(1);
    assert_eq!(story.primaries_of("ps-1"), 12, "the grace period is over");
}

#[test]
fn a_sole_replica_is_waited_for_however_long_the_master_paused() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.advance(6);
    story.pause_master(3600);
    assert_eq!(*story.members.map(), map);
    story.connect("ps-0", 1);
    story.advance(60);
    assert_eq!(*story.members.map(), map);
}

#[test]
fn a_replacement_has_its_full_time_to_join_after_a_pause() {
    let mut story = Story::start(1, Mode::Async, &["ps-0", "ps-1"]);
    story.kill("ps-1");
    story.pause_master(20);
    story.advance(4);
    assert_eq!(story.primaries_of("ps-0"), 6);
    story.advance(1);
    assert_eq!(story.primaries_of("ps-0"), 12);
}

#[test]
fn syncs_are_not_aborted_by_a_pause_of_the_master() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.set_desired(2, &[]);
    story.connect("ps-1", 1);
    let orders = |story: &Story| story.members.sync_orders(&server("ps-0"));
    let started = orders(&story);
    story.pause_master(100);
    assert_eq!(orders(&story), started, "while they sync");
    for order in &started {
        story.members.complete_sync(&server("ps-0"), order.partition, order.sync_id, story.now, &mut story.facts);
    }
    story.pause_master(100);
    assert!(orders(&story).len() == started.len() && orders(&story).iter().all(|order| order.freeze));
    story.advance(2);
    assert_eq!(orders(&story), [], "a primary that does not confirm the freeze times out");
}

#[test]
fn a_checkpoint_is_not_aborted_by_a_pause_of_the_master() {
    let mut story = Story::start(1, Mode::Async, &["ps-0"]);
    story.members.declare_model("model", &mut story.facts).unwrap();
    assert!(story.members.start_checkpoint(story.now, &mut story.facts));
    story.pause_master(100);
    assert!(story.members.is_checkpointing(), "while transfers run");
    story.members.start_writing("ledger", None, story.now, &mut story.facts);
    story.pause_master(3600);
    assert!(story.members.is_checkpointing(), "while servers write");
}

#[test]
fn the_first_map_waits_for_more_servers_after_a_pause() {
    let mut story = Story::start(1, Mode::Async, &[]);
    story.members.set_desired(&DesiredServers::default(), story.now, &mut story.facts);
    story.connect("ps-0", 1);
    story.pause_master(20);
    assert_eq!(story.members.map().epoch, MapEpoch(0), "another server may be about to join");
    story.connect("ps-1", 1);
    story.advance(1);
    assert_eq!((story.primaries_of("ps-0"), story.primaries_of("ps-1")), (6, 6));
}

#[test]
fn a_clock_that_goes_backwards_stands_still() {
    let mut story = Story::start(2, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.advance(30);
    story.members.disconnect_server(&server("ps-0"), story.now);
    story.members.tick(story.now.saturating_sub(std::time::Duration::from_secs(20)), &mut story.facts);
    story.advance(1);
    assert_eq!(*story.members.map(), map);
    story.advance(1);
    assert_eq!(story.primaries_of("ps-1"), 12);
}
