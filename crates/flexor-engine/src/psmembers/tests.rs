//! Stories of servers that come, leave and are lost.

use super::*;

const PARTITIONS: u32 = 12;

pub(super) fn server(name: &str) -> ServerId {
    ServerId::new(name, 1)
}

fn settings(copies: u32, mode: Mode) -> Settings {
    Settings { partitions: PARTITIONS, copies, mode, ..Settings::default() }
}

/// Servers that do at once what they are told.
pub(super) struct Story {
    pub(super) members: PsMembers,
    pub(super) facts: Vec<Fact>,
    pub(super) now: Duration,
}

impl Story {
    pub(super) fn begin(copies: u32, mode: Mode, names: &[&str]) -> Self {
        let mut story =
            Self { members: PsMembers::new(settings(copies, mode)), facts: Vec::new(), now: Duration::from_secs(1) };
        story.wants(names.len() as u32, &[]);
        for name in names {
            story.comes(name, 1);
        }
        story.obey();
        story
    }

    pub(super) fn wants(&mut self, expected: u32, leaving: &[&str]) {
        let leaving = leaving.iter().map(|name| Arc::from(*name)).collect();
        self.members.follow(&Wanted { expected: Some(expected), leaving }, self.now, &mut self.facts);
    }

    pub(super) fn comes(&mut self, name: &str, life: u64) {
        self.members.came(&ServerId::new(name, life), "127.0.0.1:1", self.now, &mut self.facts).unwrap();
    }

    pub(super) fn dies(&mut self, name: &str) {
        let cause = Cause::new(Reason::ServerLost, format!("{name} was killed"));
        self.members.gone(&server(name), &cause, self.now, &mut self.facts);
    }

    pub(super) fn waits(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.members.tick(self.now, &mut self.facts);
        }
    }

    /// The master is stopped for a while, and looks again when it goes on.
    pub(super) fn is_stopped(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.members.tick(self.now, &mut self.facts);
    }

    /// All do what they are told until there is nothing left to do.
    pub(super) fn obey(&mut self) {
        for _ in 0..1000 {
            let orders: Vec<(ServerId, CopyOrder)> = self
                .members
                .present
                .iter()
                .map(|(name, present)| ServerId::new(name.clone(), present.incarnation))
                .flat_map(|id| self.members.orders(&id).into_iter().map(move |order| (id.clone(), order)))
                .collect();
            if orders.is_empty() {
                return;
            }
            for (id, CopyOrder { partition, number, freeze, .. }) in orders {
                match freeze {
                    true => self.members.frozen(&id, partition, number, self.now, &mut self.facts),
                    false => self.members.synced(&id, partition, number, self.now, &mut self.facts),
                }
            }
        }
        panic!("the servers are never done");
    }

    pub(super) fn owned(&self, name: &str) -> usize {
        let owns = |seat: &&Seat| seat.owner.as_ref().is_some_and(|owner| *owner.name == *name);
        self.members.map().seats.iter().filter(owns).count()
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let reason = |fact: &Fact| match fact {
            Fact::Mapped { cause, .. } | Fact::Rewound { cause, .. } | Fact::Spoiled { cause, .. } => {
                Some(cause.reason)
            }
            Fact::Declared { .. }
            | Fact::Saving { .. }
            | Fact::Saved { .. }
            | Fact::Lost { .. }
            | Fact::Answered { .. } => None,
        };
        self.facts.iter().filter_map(reason).collect()
    }
}

#[test]
fn the_first_map_waits_for_all_who_are_expected() {
    let mut story = Story::begin(1, Mode::Async, &[]);
    story.wants(2, &[]);
    story.comes("ps-0", 1);
    assert_eq!(story.members.map().epoch, PsEpoch(0));
    story.comes("ps-1", 1);
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
    assert_eq!(story.reasons(), [Reason::ServersFormed]);
    assert!(story.members.is_settled() && story.members.is_redundant());
}

#[test]
fn without_a_controller_those_who_come_are_all() {
    let mut story = Story::begin(1, Mode::Async, &[]);
    story.members.follow(&Wanted::default(), story.now, &mut story.facts);
    story.comes("ps-0", 1);
    assert_eq!(story.members.map().epoch, PsEpoch(0));
    story.waits(1);
    assert_eq!(story.owned("ps-0"), 12);
}

#[test]
fn a_server_that_comes_takes_its_share_without_anything_beginning_again() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1));
    assert!(story.members.is_settled());
}

#[test]
fn a_server_is_released_when_it_keeps_nothing() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.wants(1, &["ps-1"]);
    assert_eq!(story.members.released().count(), 0);
    story.obey();
    assert_eq!(story.owned("ps-0"), 12);
    // With nobody else to keep a copy, the one that leaves has kept it until it was of no use.
    let released: Vec<&str> = story.members.released().map(|name| &**name).collect();
    assert_eq!(released, ["ps-1"]);
}

#[test]
fn a_server_that_says_that_it_is_to_end_is_given_nothing_any_more() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.comes("ps-1", 1);
    // Partitions are on their way to it when it is told to end, by somebody whom the controller does not know.
    assert!(!story.members.orders(&server("ps-0")).is_empty());
    assert!(!story.members.is_released(&server("ps-1")), "it has not said so");
    story.members.leaves(&server("ps-1"), story.now, &mut story.facts);
    assert!(story.members.orders(&server("ps-0")).is_empty() && story.members.is_released(&server("ps-1")));
    story.obey();
    story.waits(1);
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (12, 0));

    // One that keeps something gives it away first, and another life of it is welcome.
    story.comes("ps-1", 2);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
    story.members.leaves(&server("ps-0"), story.now, &mut story.facts);
    assert!(!story.members.is_released(&server("ps-0")));
    story.obey();
    assert!(story.members.is_released(&server("ps-0")) && story.owned("ps-1") == 12);
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1), "nothing has begun again");
}

#[test]
fn a_controller_may_think_again_while_a_server_is_away() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.wants(1, &["ps-1"]);
    story.members.session_lost(&server("ps-1"), story.now);
    story.comes("ps-1", 1);
    story.wants(2, &[]);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
}

#[test]
fn nothing_is_given_to_a_server_that_is_away() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    let orders = story.members.orders(&server("ps-0"));
    story.members.session_lost(&server("ps-1"), story.now);
    for CopyOrder { partition, number, .. } in &orders {
        story.members.synced(&server("ps-0"), *partition, *number, story.now, &mut story.facts);
        story.members.frozen(&server("ps-0"), *partition, *number, story.now, &mut story.facts);
    }
    assert!(!orders.is_empty() && story.owned("ps-1") == 0);
    story.comes("ps-1", 1);
    story.waits(1);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
}

#[test]
fn a_server_is_replaced_by_another() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.comes("ps-2", 1);
    story.wants(1, &["ps-0"]);
    story.obey();
    assert_eq!(story.owned("ps-2"), 12);
    assert_eq!(story.members.released().map(|name| &**name).collect::<Vec<_>>(), ["ps-0"]);
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1));
}

#[test]
fn what_is_kept_by_one_who_is_away_is_not_kept_twice() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.members.session_lost(&server("ps-0"), story.now);
    assert!(!story.members.is_redundant() && story.members.is_away(&server("ps-0")));
    story.comes("ps-0", 1);
    assert!(story.members.is_redundant() && !story.members.is_away(&server("ps-0")));
}

#[test]
fn a_backup_takes_over_at_once() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    assert!(story.members.is_redundant());
    story.dies("ps-0");
    assert_eq!(story.owned("ps-1"), 12);
    assert!(!story.members.is_redundant());
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1));
    story.comes("ps-0", 2);
    story.obey();
    assert!(story.members.is_redundant() && story.members.is_settled());
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
}

#[test]
fn everything_is_kept_twice_before_anything_gets_another_owner() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    let copies = story.members.orders(&server("ps-0"));
    assert_eq!(copies.len(), 12);
    for CopyOrder { partition, number, .. } in copies {
        assert!(!story.members.is_redundant());
        story.members.synced(&server("ps-0"), partition, number, story.now, &mut story.facts);
    }
    assert!(story.members.is_redundant());
    assert_eq!(story.owned("ps-0"), 12);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
    story.dies("ps-0");
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1), "nothing has begun again");
}

#[test]
fn what_had_one_copy_begins_again_from_the_last_checkpoint() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.saves();
    story.dies("ps-1");
    assert_eq!(story.members.map().seats.iter().filter(|seat| seat.owner.is_none()).count(), 6);
    story.comes("ps-1", 2);
    let again = story.members.map().seats.iter().filter(|seat| seat.origin.number == 2);
    assert!(again.clone().all(|seat| seat.origin.source == Source::Checkpoint(1)));
    assert_eq!(again.count(), 6);
    assert_eq!(story.reasons().last(), Some(&Reason::PartitionsRestored));
}

#[test]
fn others_take_over_what_no_replacement_comes_for() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    story.dies("ps-1");
    story.waits(4);
    assert_eq!(story.owned("ps-0"), 6);
    story.waits(2);
    assert_eq!(story.owned("ps-0"), 12);
}

#[test]
fn in_steps_everything_goes_back_together() {
    let mut story = Story::begin(1, Mode::Sync, &["ps-0", "ps-1"]);
    story.saves();
    story.dies("ps-1");
    story.comes("ps-1", 2);
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 2));
    assert!(matches!(story.facts.last(), Some(Fact::Rewound { checkpoint: Some(1), .. })));
}

#[test]
fn a_copy_that_makes_no_progress_is_given_up_and_tried_again() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    let first = story.members.orders(&server("ps-0"));
    assert_eq!(first.len(), 6);
    story.waits(30);
    assert_eq!(story.members.orders(&server("ps-0")), []);
    // A report about what was given up changes nothing.
    story.members.synced(&server("ps-0"), first[0].partition, first[0].number, story.now, &mut story.facts);
    assert_eq!(story.owned("ps-0"), 12);
    story.waits(6);
    story.obey();
    assert_eq!(story.owned("ps-1"), 6);
}

#[test]
fn a_copy_that_is_begun_is_made_though_it_would_go_elsewhere_by_now() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.wants(3, &[]);
    story.comes("ps-2", 1);
    let copies = |story: &Story| -> Vec<u64> {
        let copies = story.members.moves.values().filter(|step| step.becomes == moves::Becomes::Backup);
        copies.map(|step| step.number).collect()
    };
    let begun = copies(&story);
    story.wants(4, &[]);
    story.comes("ps-3", 1);
    assert!(!begun.is_empty() && begun.iter().all(|number| copies(&story).contains(number)));
    story.obey();
    assert!(story.members.is_settled() && story.members.is_redundant());
}

#[test]
fn a_move_to_a_server_that_dies_rolls_back() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    for order in story.members.orders(&server("ps-0")) {
        story.members.synced(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    assert!(story.members.orders(&server("ps-0")).iter().all(|order| order.freeze));
    story.dies("ps-1");
    assert_eq!(story.members.orders(&server("ps-0")), []);
    assert_eq!(story.owned("ps-0"), 12);
}

#[test]
fn what_has_caught_up_takes_over_from_an_owner_that_dies() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.comes("ps-1", 1);
    story.wants(1, &["ps-0"]);
    for order in story.members.orders(&server("ps-0")) {
        story.members.synced(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    story.dies("ps-0");
    assert_eq!(story.owned("ps-1"), 12);
    assert!(story.members.map().seats.iter().all(|seat| seat.origin.number == 1));
}

#[test]
fn what_has_caught_up_takes_over_before_a_backup_that_is_away() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    story.comes("ps-2", 1);
    story.wants(2, &["ps-0"]);
    let orders = story.members.orders(&server("ps-0"));
    let to_it: Vec<Partition> = orders.iter().filter(|one| one.to == server("ps-2")).map(|one| one.partition).collect();
    assert!(!to_it.is_empty());
    for order in orders {
        story.members.synced(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    story.members.session_lost(&server("ps-1"), story.now);
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(10);
    let seats = || to_it.iter().map(|id| story.members.map().seat(*id).unwrap());
    assert!(
        seats().all(|seat| seat.owner == Some(server("ps-2")) && seat.origin.number == 1),
        "{:#?}",
        story.members.map()
    );
}

#[test]
fn a_server_has_a_while_to_come_back() {
    let mut story = Story::begin(2, Mode::Async, &["ps-0", "ps-1"]);
    let epoch = story.members.map().epoch;
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(1);
    assert_eq!(story.members.map().epoch, epoch);
    story.comes("ps-0", 1);
    story.waits(5);
    assert_eq!(story.members.map().epoch, epoch);
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(3);
    assert_eq!(story.owned("ps-1"), 12);
}

#[test]
fn a_master_that_is_started_again_waits_for_the_servers_it_knows() {
    let story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    let mut again = PsMembers::default();
    story.facts.iter().for_each(|fact| again.replay(fact));
    let again = again.resume(settings(1, Mode::Async), 2, Duration::from_secs(5));
    let mut again = Story { members: again, facts: Vec::new(), now: Duration::from_secs(5) };
    again.wants(2, &[]);
    again.waits(9);
    assert_eq!((again.members.map(), again.facts.len()), (story.members.map(), 0));
    again.comes("ps-0", 1);
    again.waits(2);
    assert_eq!((again.members.map(), again.facts.len()), (story.members.map(), 0), "only it has what it keeps");
    again.waits(5);
    let begun_again = again.members.map().seats.iter().filter(|seat| seat.origin.number == 2).count();
    assert_eq!(begun_again, 6, "the one that did not come is lost");
}

#[test]
fn what_only_one_server_has_waits_longer_for_it() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0", "ps-1"]);
    let map = story.members.map().clone();
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(6);
    assert_eq!(*story.members.map(), map, "it may have been stopped for a while");
    story.comes("ps-0", 1);
    story.waits(60);
    assert_eq!(*story.members.map(), map);
    story.members.session_lost(&server("ps-0"), story.now);
    story.waits(8);
    assert_eq!(story.owned("ps-1"), 12);
    assert_eq!(story.members.map().seats.iter().filter(|seat| seat.origin.number == 2).count(), 6);
}

#[test]
fn partitions_that_get_another_owner_freeze_together() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.wants(2, &[]);
    story.comes("ps-1", 1);
    let orders = |story: &Story| story.members.orders(&server("ps-0"));
    let begun = orders(&story);
    let (last, others) = begun.split_last().unwrap();
    let epoch = story.members.map().epoch;
    for order in others {
        story.members.synced(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    assert!(orders(&story).iter().all(|order| !order.freeze), "one is still copied");
    story.members.synced(&server("ps-0"), last.partition, last.number, story.now, &mut story.facts);
    assert!(orders(&story).len() == begun.len() && orders(&story).iter().all(|order| order.freeze));
    for order in others {
        story.members.frozen(&server("ps-0"), order.partition, order.number, story.now, &mut story.facts);
    }
    assert_eq!(story.members.map().epoch, epoch, "one has not stopped yet");
    story.waits(3);
    assert_eq!(story.members.map().epoch.0, epoch.0 + 1, "it is not waited for longer");
    assert_eq!(story.owned("ps-1"), others.len());
    story.waits(1);
    story.obey();
    assert_eq!((story.owned("ps-0"), story.owned("ps-1")), (6, 6));
}

#[test]
fn an_earlier_life_is_refused() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.comes("ps-0", 3);
    let refused = story.members.came(&server("ps-0"), "127.0.0.1:1", story.now, &mut story.facts).unwrap_err();
    assert_eq!(refused.reason, Reason::ServerReplaced);
}

#[test]
fn another_model_is_refused() {
    let mut story = Story::begin(1, Mode::Async, &["ps-0"]);
    story.members.declare("deepfm:dim=8", &mut story.facts).unwrap();
    story.members.declare("deepfm:dim=8", &mut story.facts).unwrap();
    let refused = story.members.declare("deepfm:dim=16", &mut story.facts).unwrap_err();
    assert_eq!(refused.reason, Reason::ModelDiffers);
    assert_eq!(story.members.model(), Some("deepfm:dim=8"));
}
