//! Stories of checkpoints: those that come to an end, and those that do not.

use super::super::tests::{Story, server};
use super::super::{Settings, Wanted};
use super::*;

impl Story {
    /// Begins a checkpoint: everybody is told to write.
    fn begins_to_save(&mut self) {
        self.members.declare("model", &mut self.facts).unwrap();
        assert!(self.members.begin_saving(self.now, &mut self.facts));
        self.members.write("ledger", None, self.now, &mut self.facts);
    }

    fn order(&self, name: &str) -> Option<SaveOrder> {
        self.members.present().find(|id| *id.name == *name).and_then(|id| self.members.save_order(&id))
    }

    fn writes(&mut self, name: &str) {
        let number = self.order(name).unwrap().number;
        let id = self.members.present().find(|id| *id.name == *name).unwrap();
        self.members.part_written(&id, number, name, self.now, &mut self.facts);
    }

    /// Makes a checkpoint.
    pub(in super::super) fn saves(&mut self) {
        self.begins_to_save();
        let servers: Vec<ServerId> = self.members.present().collect();
        for id in &servers {
            self.writes(&id.name);
        }
        let sealer = servers.iter().find(|id| self.members.save_order(id).is_some()).unwrap();
        let number = self.members.save_order(sealer).unwrap().number;
        self.members.sealed(sealer, number, self.now, &mut self.facts);
    }

    fn saved(&self) -> Vec<u64> {
        self.members.checkpoints().iter().map(|checkpoint| checkpoint.number).collect()
    }
}

#[test]
fn everybody_writes_and_one_seals() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.begins_to_save();
    assert_eq!(story.order("ps-0"), Some(SaveOrder { number: 1, steps: None, seal: None }));
    story.writes("ps-0");
    assert_eq!(story.order("ps-0"), None);
    story.writes("ps-1");
    let seal = story.order("ps-1").unwrap().seal.unwrap();
    assert_eq!((&*seal.ledger, seal.parts.len()), ("ledger", 2));
    assert_eq!(story.saved(), [0_u64; 0]);
    story.members.sealed(&server("ps-1"), 1, story.now, &mut story.facts);
    assert_eq!(story.saved(), [1]);
    assert_eq!(story.order("ps-1"), None);
}

#[test]
fn nothing_is_moved_meanwhile() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.begins_to_save();
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    assert_eq!(story.members.orders(&server("ps-0")), []);
    story.writes("ps-0");
    story.members.sealed(&server("ps-0"), 1, story.now, &mut story.facts);
    assert_eq!(story.members.orders(&server("ps-0")).len(), 6);
}

#[test]
fn it_waits_for_what_is_being_moved() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    story.begins_to_save();
    assert_eq!(story.order("ps-0"), None);
    story.obey();
    story.members.write("ledger", None, story.now, &mut story.facts);
    assert!(story.order("ps-0").is_some() && story.order("ps-1").is_some());
}

#[test]
fn however_long_it_takes_it_is_not_given_up_while_everybody_gets_on() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.begins_to_save();
    for _ in 0..60 {
        story.waits(60);
        story.members.writing(&server("ps-0"), 1, story.now);
        story.members.writing(&server("ps-1"), 1, story.now);
    }
    assert!(story.members.is_saving());
    story.members.writing(&server("ps-1"), 2, story.now);
    for _ in 0..2 {
        story.waits(60);
        story.members.writing(&server("ps-0"), 1, story.now);
    }
    assert!(!story.members.is_saving(), "one of them does not get on");
    let cause = story.members.unsaved().unwrap();
    assert!(cause.message.starts_with("ps-1") && cause.message.ends_with("has written nothing for 120 s"), "{cause}");
}

#[test]
fn it_waits_for_what_is_being_moved_as_long_as_that_gets_on() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    story.begins_to_save();
    let orders = story.members.orders(&server("ps-0"));
    for _ in 0..10 {
        story.waits(20);
        for order in &orders {
            story.members.copying(&server("ps-0"), order.partition, order.number, story.now);
        }
    }
    assert!(story.members.is_saving());
    story.members.settings.copy_limit = Duration::from_secs(3600);
    story.waits(30);
    assert!(!story.members.is_saving());
}

#[test]
fn a_server_that_is_lost_ends_the_attempt_and_its_number_is_used_up() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.begins_to_save();
    story.writes("ps-0");
    story.dies("ps-1");
    assert_eq!(story.order("ps-0"), None);
    assert_eq!(story.members.unsaved().map(|cause| cause.reason), Some(Reason::CheckpointFailed));
    story.comes("ps-1", 2);
    story.obey();
    story.saves();
    assert_eq!(story.saved(), [2]);
    assert_eq!(story.members.unsaved(), None);
}

#[test]
fn nothing_is_written_while_a_partition_has_no_owner() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.members.declare("model", &mut story.facts).unwrap();
    assert!(story.members.begin_saving(story.now, &mut story.facts));
    story.dies("ps-1");
    assert!(!story.members.is_still(), "it would have half of the partitions in it");
    story.members.write("ledger", None, story.now, &mut story.facts);
    assert_eq!(story.order("ps-0"), None);
    story.comes("ps-1", 2);
    story.members.write("ledger", None, story.now, &mut story.facts);
    assert!(story.order("ps-0").is_some() && story.order("ps-1").is_some());
}

#[test]
fn one_that_cannot_be_written_changes_nothing() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.saves();
    story.begins_to_save();
    let cause = Cause::new(Reason::CheckpointFailed, "no space left on device");
    story.members.not_saved(2, cause, story.now, &mut story.facts);
    assert_eq!(story.saved(), [1]);
    assert!(story.members.unsaved().unwrap().message.contains("no space"));
}

#[test]
fn a_job_begins_with_what_is_found_in_its_folder() {
    let settings = Settings { partitions: 4, keep: Some(2), ..Settings::default() };
    let (mut members, facts, now) = (PsMembers::new(settings), &mut Vec::new(), Duration::from_secs(1));
    let wanted = Wanted { expected: Some(1), ..Wanted::default() };
    members.follow(&wanted, now, facts);
    members.came(&server("ps-0"), "here", now, facts).unwrap();
    assert_eq!(members.map().epoch, PsEpoch(0), "nobody has looked");
    let found = Checkpoint { number: 5, ledger: "there".into() };
    members.found(Some((found, "model")), 7, now, facts);
    assert!(members.map().seats.iter().all(|seat| seat.origin.source == Source::Checkpoint(5)));
    assert_eq!(members.declare("another", facts).unwrap_err().reason, Reason::ModelDiffers);
    members.begin_saving(now, facts);
    members.write("ledger", None, now, facts);
    assert_eq!(members.save_order(&server("ps-0")).unwrap().number, 8);
}

#[test]
fn a_damaged_one_is_left_out_and_the_one_before_is_taken() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.saves();
    story.saves();
    story.dies("ps-1");
    story.comes("ps-1", 2);
    let lost: Vec<Partition> =
        story.members.map().iter().filter(|(_, seat)| seat.origin.number == 2).map(|(id, _)| id).collect();
    let again = ServerId::new("ps-1", 2);
    story.members.unreadable(&again, 2, &lost, "a bit is flipped", story.now, &mut story.facts);
    assert_eq!(story.saved(), [1]);
    let seats = lost.iter().map(|id| story.members.map().seat(*id).unwrap());
    assert!(seats.clone().all(|seat| seat.origin == Origin { number: 3, source: Source::Checkpoint(1) }));
    assert!(seats.clone().all(|seat| seat.owner.is_some()));
}

/// What a server has begun again with, of the beginning of this number.
fn begun(story: &Story, id: &ServerId, number: u64) -> Vec<(Partition, u64)> {
    let is_such = |(_, seat): &(Partition, &Seat)| seat.is_kept_by(id) && seat.origin.number == number;
    story.members.map().iter().filter(is_such).map(|(partition, _)| (partition, number)).collect()
}

#[test]
fn one_that_a_server_does_not_get_at_is_read_by_another() {
    for mode in [Mode::Async, Mode::Sync] {
        let mut story = Story::begin(1, mode, &["ps-0", "ps-1"]);
        story.saves();
        story.dies("ps-1");
        story.comes("ps-1", 2);
        let (again, other) = (ServerId::new("ps-1", 2), server("ps-0"));
        let lost = begun(&story, &again, 2);
        assert_eq!(lost.len(), 6);
        story.members.not_read(&again, 1, &lost, "input/output error", story.now, &mut story.facts);
        assert_eq!(story.saved(), [1], "nothing is wrong with it");
        assert_eq!(story.reasons().last(), Some(&Reason::CheckpointUnread));
        let wanted = Origin { number: 3, source: Source::Checkpoint(1) };
        let seats = |story: &Story| -> Vec<Seat> {
            lost.iter().map(|(id, _)| story.members.map().seat(*id).unwrap().clone()).collect()
        };
        assert!(seats(&story).iter().all(|seat| seat.owner == Some(other.clone()) && seat.origin == wanted));
        story.obey();
        let settled = seats(&story);
        story.members.not_read(&again, 1, &lost, "input/output error", story.now, &mut story.facts);
        assert_eq!(seats(&story), settled, "it was about the beginning before");
    }
}

#[test]
fn one_that_the_only_server_does_not_get_at_is_read_once_more() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.saves();
    story.dies("ps-0");
    story.comes("ps-0", 2);
    let again = ServerId::new("ps-0", 2);
    for number in 2..5 {
        let lost = begun(&story, &again, number);
        assert_eq!(lost.len(), 12);
        story.members.not_read(&again, 1, &lost, "it is not mounted", story.now, &mut story.facts);
        assert_eq!((story.saved(), story.members.unowned()), (vec![1], 0));
    }
}

#[test]
fn one_that_an_owner_does_not_get_at_is_had_by_its_copy() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.saves();
    story.dies("ps-0");
    story.dies("ps-1");
    story.comes("ps-0", 2);
    story.comes("ps-1", 2);
    let (one, other) = (ServerId::new("ps-0", 2), ServerId::new("ps-1", 2));
    let lost = begun(&story, &one, 2);
    assert_eq!(lost.len(), 12);
    story.members.not_read(&one, 1, &lost, "input/output error", story.now, &mut story.facts);
    let seats = &story.members.map().seats;
    assert!(seats.iter().all(|seat| seat.owner == Some(other.clone()) && seat.origin.number == 2));
    assert_eq!(story.saved(), [1]);
}

fn saved(checkpoint: u64, oldest: u64) -> Fact {
    Fact::Saved { checkpoint, ledger: "ledger".into(), oldest }
}

#[test]
fn a_master_that_is_started_again_knows_no_more_checkpoints_than_are_kept() {
    let mut members = PsMembers::default();
    (1..=4).for_each(|number| members.replay(&saved(number, 0)));
    let known = |keep: Option<usize>| -> Vec<u64> {
        let settings = Settings { keep, ..Settings::default() };
        let members = members.clone().resume(settings, 2, Duration::from_secs(1));
        members.checkpoints().iter().map(|checkpoint| checkpoint.number).collect()
    };
    assert_eq!(known(Some(2)), [3, 4], "the master before this one kept more");
    assert_eq!(known(Some(9)), [1, 2, 3, 4]);
    assert_eq!(known(Some(0)), [1, 2, 3, 4], "all are kept");
    assert_eq!(known(None), [1, 2, 3, 4]);
}

#[test]
fn a_checkpoint_that_was_deleted_does_not_come_back_with_the_next_master() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.members.settings.keep = Some(2);
    (1..=3).for_each(|_| story.saves());
    assert_eq!(story.saved(), [2, 3]);
    for number in [3, 2] {
        story.members.unreadable(&server("ps-0"), number, &[], "a bit is flipped", story.now, &mut story.facts);
    }
    let mut next = PsMembers::default();
    story.facts.iter().for_each(|fact| next.replay(fact));
    let next = next.resume(story.members.settings.clone(), 2, story.now);
    assert_eq!((next.checkpoints(), story.members.checkpoints()), (&[][..], &[][..]));
}

#[test]
fn what_clients_were_answered_for_and_no_checkpoint_has_is_lost() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    let (members, facts) = (&mut story.members, &mut story.facts);
    members.answered(Partition(3), 1, 90, facts);
    members.answered(Partition(3), 1, 100, facts);
    members.answered(Partition(3), 1, 95, facts);
    assert_eq!(members.updates_lost(), 0);
    members.begun(Partition(3), 2, 60, facts);
    assert_eq!(members.updates_lost(), 40);
    // One who was answered with more says so late.
    members.answered(Partition(3), 1, 104, facts);
    members.answered(Partition(3), 1, 80, facts);
    assert_eq!(members.updates_lost(), 44);
    members.answered(Partition(4), 1, 5, facts);
    members.begun(Partition(4), 2, 5, facts);
    assert_eq!(members.updates_lost(), 44);
}

#[test]
fn what_a_lost_beginning_began_with_is_lost_too() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    let (members, facts) = (&mut story.members, &mut story.facts);
    members.answered(Partition(3), 1, 100, facts);
    members.begun(Partition(3), 2, 50, facts);
    // Nobody is answered, and the checkpoint that it began with cannot be read any more.
    members.begun(Partition(3), 3, 30, facts);
    assert_eq!(members.updates_lost(), 70);
}

#[test]
fn what_clients_were_answered_with_is_known_to_the_next_master() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    let (members, facts, now) = (&mut story.members, &mut story.facts, story.now + Duration::from_secs(3));
    members.answered(Partition(3), 1, 90, facts);
    members.keep_answers(now, facts);
    members.answered(Partition(3), 1, 100, facts);
    members.keep_answers(now, facts);
    // Written down are those of 90; those after it not yet.
    let mut next = PsMembers::new(Settings::default());
    facts.iter().for_each(|fact| next.replay(fact));
    let read: PsMembers = serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap();
    for members in [next, read] {
        let mut members = members.resume(Settings::default(), 2, now);
        members.begun(Partition(3), 2, 60, &mut Vec::new());
        assert_eq!(members.updates_lost(), 30);
    }
}
