//! Stories of a master that is stopped: whoever was waited for could not come back, no copy could say how far it is, and
//! no checkpoint that it is written.

use flexor_model::PsEpoch;

use super::tests::{Story, server};
use super::{Mode, Wanted};

#[test]
fn a_server_that_was_away_when_the_master_was_stopped_is_not_lost_for_it() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.session_lost(&server("ps-0"), story.now);
    story.is_stopped(20);
    story.waits(1);
    assert_eq!(*story.members.map(), map, "it has had no time to come back");
    story.waits(1);
    assert_eq!(story.owned("ps-1"), 12, "it is not waited for longer than ever");
}

#[test]
fn what_only_one_server_has_waits_for_it_however_long_the_master_was_stopped() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(6);
    story.is_stopped(3600);
    assert_eq!(*story.members.map(), map);
    story.comes("ps-0", 1);
    story.waits(60);
    assert_eq!(*story.members.map(), map);
}

#[test]
fn a_replacement_has_its_time_to_come_after_the_master_was_stopped() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.dies("ps-1");
    story.is_stopped(20);
    story.waits(4);
    assert_eq!(story.owned("ps-0"), 6);
    story.waits(1);
    assert_eq!(story.owned("ps-0"), 12);
}

#[test]
fn copies_are_not_given_up_for_a_stop_of_the_master() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    let orders = |story: &Story| story.members.orders(&server("ps-0"));
    let begun = orders(&story);
    story.is_stopped(100);
    assert_eq!(orders(&story), begun, "while they are copied");
    for order in &begun {
        story.members.synced(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    story.is_stopped(100);
    assert!(orders(&story).len() == begun.len() && orders(&story).iter().all(|order| order.freeze));
    story.waits(2);
    assert_eq!(orders(&story), [], "an owner that does not stop is not waited for longer than ever");
}

#[test]
fn a_checkpoint_is_not_given_up_for_a_stop_of_the_master() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.members.declare("model", &mut story.facts).unwrap();
    assert!(story.members.begin_saving(story.now, &mut story.facts));
    story.is_stopped(100);
    assert!(story.members.is_saving(), "while what is moved arrives");
    story.members.write("ledger", None, story.now, &mut story.facts);
    story.is_stopped(3600);
    assert!(story.members.is_saving(), "while it is written");
}

#[test]
fn those_who_come_first_wait_for_the_others_after_the_master_was_stopped() {
    let mut story = Story::begin(1, Mode::Async, &[]);
    story.members.follow(&Wanted::default(), story.now, &mut story.facts);
    story.comes("ps-0", 1);
    story.is_stopped(20);
    assert_eq!(story.members.map().epoch, PsEpoch(0), "another may have been about to come");
    story.comes("ps-1", 1);
    story.waits(1);
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
}

#[test]
fn time_that_runs_backwards_stands_still() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.waits(30);
    story.members.session_lost(&server("ps-0"), story.now);
    story.members.tick(story.now.saturating_sub(std::time::Duration::from_secs(20)), &mut story.facts);
    story.waits(1);
    assert_eq!(*story.members.map(), map);
    story.waits(1);
    assert_eq!(story.owned("ps-1"), 12);
}
