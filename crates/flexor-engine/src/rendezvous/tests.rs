//! Decisions of a rendezvous, as short histories.

use flexor_model::Rank;

use super::*;

/// A rendezvous with a clock that the test advances.
struct Story {
    rendezvous: Rendezvous,
    now: Duration,
}

impl Story {
    fn of(min: u32, max: u32) -> Self {
        Self::with(Settings::new(min, max).unwrap())
    }

    fn with(settings: Settings) -> Self {
        Self { rendezvous: Rendezvous::new(settings), now: Duration::from_secs(100) }
    }

    fn apply(&mut self, event: Event) -> Vec<Fact> {
        self.rendezvous.handle(event, self.now)
    }

    fn join(&mut self, names: &[&str]) -> Option<World> {
        let before = self.rendezvous.world().cloned();
        for name in names {
            self.apply(Event::Join { id: id(name), processes: Processes::default() });
        }
        self.rendezvous.world().cloned().filter(|world| Some(world) != before.as_ref())
    }

    fn leave_and_join(&mut self, names: &[&str]) -> Option<World> {
        for name in names {
            self.apply(Event::Leave { id: id(name) });
        }
        self.join(names)
    }

    fn lose(&mut self, name: &str) -> Vec<Fact> {
        self.apply(Event::Lost { id: id(name), cause: Cause::new(Reason::ConnectionClosed, "closed") })
    }

    /// Advances time second by second; every named node sends a heartbeat in each second.
    fn wait(&mut self, seconds: u64, alive: &[&str]) -> Vec<Fact> {
        let mut facts = Vec::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            for name in alive {
                facts.extend(self.apply(Event::Heartbeat { id: id(name) }));
            }
            facts.extend(self.apply(Event::Tick));
        }
        facts
    }

    fn restart_reason(&self) -> Option<Reason> {
        self.rendezvous.restart_cause().map(|cause| cause.reason)
    }
}

fn id(name: &str) -> MemberId {
    MemberId::new(name, 0)
}

fn names(world: &World) -> Vec<&str> {
    world.members.iter().map(|member| &*member.name).collect()
}

#[test]
fn the_maximum_world_completes_at_once() {
    let mut story = Story::of(2, 3);
    assert_eq!(story.join(&["b", "a"]), None);
    let world = story.join(&["c"]).expect("complete");
    assert_eq!((world.round, names(&world)), (Round(0), vec!["a", "b", "c"]));
    assert_eq!(world.rank_of(&id("b")), Some(Rank(1)));
    assert_eq!(story.restart_reason(), None);
}

#[test]
fn a_first_round_of_unknown_size_waits_for_the_last_call() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b"]);
    assert_eq!(story.rendezvous.status().reason, Reason::WaitingForExpected);
    assert_eq!(story.wait(29, &["a", "b"]), []);
    let facts = story.wait(1, &["a", "b"]);
    assert!(matches!(&facts[..], [Fact::Completed { cause, .. }] if cause.reason == Reason::LastCallOver));
}

#[test]
fn the_expected_number_completes_at_once() {
    let mut story = Story::of(2, 8);
    story.apply(Event::Expect { nodes: Some(3) });
    assert_eq!(story.join(&["a", "b"]), None);
    assert_eq!(names(&story.join(&["c"]).expect("complete")), ["a", "b", "c"]);
}

#[test]
fn when_the_last_missing_node_is_no_longer_expected_the_round_completes() {
    let mut story = Story::of(2, 8);
    story.apply(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b"]);
    let facts = story.apply(Event::Expect { nodes: Some(2) });
    assert!(matches!(&facts[..], [Fact::Expected { .. }, Fact::Completed { .. }]), "{facts:?}");
}

#[test]
fn newcomers_never_restart_a_world_of_the_expected_size() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    assert_eq!(story.join(&["c", "d"]), None);
    assert_eq!(story.restart_reason(), None, "a and b are the two expected nodes; c and d are standbys");
    story.apply(Event::Expect { nodes: Some(3) });
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined), "the world has room for one more");
    assert_eq!(names(&story.leave_and_join(&["a", "b"]).expect("complete")), ["a", "b", "c"]);
    assert_eq!(story.rendezvous.state_of(&id("d")), Some(MemberState::Standby));
}

#[test]
fn a_newcomer_that_is_lost_before_the_round_causes_no_restart() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    story.apply(Event::Expect { nodes: Some(4) });
    story.join(&["c"]);
    story.lose("c");
    story.wait(31, &["a", "b"]);
    assert_eq!(story.restart_reason(), None);
    story.leave_and_join(&["a", "b"]);
    assert_eq!(story.rendezvous.program_failures(), 1, "the lost newcomer does not excuse the program");
}

#[test]
fn a_scale_down_is_no_failure_of_the_program() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b", "c"]);
    story.apply(Event::Expect { nodes: Some(2) });
    assert!(story.leave_and_join(&["a", "b"]).is_some(), "c is being deleted but not lost yet");
    assert_eq!(story.rendezvous.program_failures(), 0);
    story.join(&["c"]);
    assert_eq!(story.rendezvous.state_of(&id("c")), Some(MemberState::Standby), "the world has its expected size");
    assert_eq!(story.restart_reason(), None);
}

#[test]
fn a_smaller_expected_number_completes_without_the_slowest_node() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b", "c"]);
    story.apply(Event::Expect { nodes: Some(2) });
    let world = story.leave_and_join(&["a", "b"]).expect("two are enough");
    assert_eq!(names(&world), ["a", "b"]);
}

#[test]
fn survivors_of_a_lost_node_form_a_world_as_soon_as_all_have_joined() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.lose("a");
    assert_eq!(story.restart_reason(), Some(Reason::NodeLost));
    assert_eq!(story.leave_and_join(&["b"]), None);
    assert_eq!(story.rendezvous.status().reason, Reason::WaitingForMembers);
    let world = story.leave_and_join(&["c"]).expect("complete");
    assert_eq!((world.round, names(&world)), (Round(1), vec!["c", "b"]), "b keeps its rank");
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn a_loss_observed_after_the_survivors_joined_still_costs_no_retry() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    assert_eq!(story.leave_and_join(&["b", "c"]), None, "a still counts as alive");
    let facts = story.lose("a");
    assert!(
        matches!(&facts[..], [Fact::Dropped { .. }, Fact::Completed { trigger: Some(trigger), program_failures: 0, .. }]
        if trigger.reason == Reason::NodeLost)
    );
}

#[test]
fn below_the_minimum_survivors_wait_for_a_replacement() {
    let mut story = Story::of(3, 3);
    story.join(&["a", "b", "c"]);
    story.lose("c");
    assert_eq!(story.leave_and_join(&["a", "b"]), None);
    assert_eq!(story.rendezvous.status().reason, Reason::WaitingForMinimum);
    assert_eq!(names(&story.join(&["d"]).expect("complete")), ["a", "b", "d"]);
}

#[test]
fn a_newcomer_restarts_the_world_and_the_world_grows() {
    let mut story = Story::of(2, 3);
    story.apply(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    story.apply(Event::Expect { nodes: None });
    story.join(&["c"]);
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined));
    let world = story.leave_and_join(&["a", "b"]).expect("complete");
    assert_eq!(names(&world), ["a", "b", "c"]);
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn the_world_is_not_restarted_before_all_expected_newcomers_have_joined() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(1) });
    story.join(&["a"]);
    story.apply(Event::Expect { nodes: Some(3) });
    story.join(&["b"]);
    assert_eq!(story.restart_reason(), None);
    story.join(&["c"]);
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined));
}

#[test]
fn an_expected_node_that_never_joins_delays_growth_only_for_the_last_call() {
    let mut story = Story::of(1, 8);
    story.apply(Event::Expect { nodes: Some(1) });
    story.join(&["a"]);
    story.apply(Event::Expect { nodes: Some(3) });
    story.join(&["b"]);
    story.wait(31, &["a", "b"]);
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined));
}

#[test]
fn a_surplus_node_is_a_standby_and_replaces_a_lost_one() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.join(&["s"]);
    assert_eq!(story.rendezvous.state_of(&id("s")), Some(MemberState::Standby));
    assert_eq!(story.restart_reason(), None, "a standby causes no restart");
    story.lose("b");
    assert_eq!(names(&story.leave_and_join(&["a", "c"]).expect("complete")), ["a", "s", "c"]);
}

#[test]
fn standbys_do_not_replace_a_survivor_that_is_alive() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.join(&["s", "t"]);
    story.lose("c");
    assert_eq!(story.leave_and_join(&["a"]), None, "two standbys would fill the world, but b is alive");
    assert_eq!(names(&story.leave_and_join(&["b"]).expect("complete")), ["a", "b", "s"]);
    assert_eq!(story.rendezvous.state_of(&id("t")), Some(MemberState::Standby));
}

#[test]
fn standbys_form_the_world_when_the_whole_world_is_lost() {
    let mut story = Story::of(1, 1);
    story.join(&["a"]);
    story.join(&["s"]);
    let facts = story.lose("a");
    assert!(matches!(&facts[..], [Fact::Dropped { .. }, Fact::Completed { .. }]), "{facts:?}");
}

#[test]
fn a_world_is_a_multiple_of_the_node_unit_and_grows_by_it() {
    let mut story = Story::with(Settings::new(2, 6).unwrap().with_unit(2).unwrap());
    story.apply(Event::Expect { nodes: Some(3) });
    assert_eq!(names(&story.join(&["a", "b", "c"]).expect("complete")), ["a", "b"]);
    assert_eq!(story.rendezvous.state_of(&id("c")), Some(MemberState::Standby));
    story.apply(Event::Expect { nodes: None });
    story.join(&["d"]);
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined), "c and d make a unit");
    assert_eq!(names(&story.leave_and_join(&["a", "b"]).expect("complete")), ["a", "b", "c", "d"]);
}

#[test]
fn rounds_that_only_a_failing_program_explains_are_counted_and_close_the_run() {
    let mut story = Story::of(2, 2);
    story.join(&["a", "b"]);
    for failures in 1..=3 {
        assert!(story.leave_and_join(&["a", "b"]).is_some());
        assert_eq!(story.rendezvous.program_failures(), failures);
    }
    assert_eq!(story.leave_and_join(&["a", "b"]), None);
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RestartsExhausted));
    assert_eq!(story.rendezvous.program_failures(), 4, "the one that closed the run is counted too");

    story.apply(Event::Reopen);
    assert_eq!(story.rendezvous.program_failures(), 0);
    assert!(story.rendezvous.closed().is_none());
}

#[test]
fn a_silent_node_is_dropped_and_its_late_events_about_the_old_world_are_ignored() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    let facts = story.wait(10, &["a", "b"]);
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::NodeSilent), "{facts:?}");
    assert_eq!(story.apply(Event::Leave { id: id("c") }), []);
    assert_eq!(story.apply(Event::Close { by: id("c") }), []);
    story.leave_and_join(&["a", "b"]);
    story.join(&["c"]);
    assert_eq!(story.restart_reason(), Some(Reason::NodeJoined), "it may join again as a newcomer");
}

#[test]
fn a_lost_sidecar_has_a_grace_to_reconnect() {
    let mut story = Story::of(2, 2);
    story.join(&["a", "b"]);
    let second = Duration::from_secs(1);
    story.apply(Event::ConnectionLost { id: id("a"), grace: second });
    story.now += Duration::from_millis(900);
    story.apply(Event::Heartbeat { id: id("a") });
    assert_eq!(story.wait(2, &["b"]), [], "it reconnected");
    story.apply(Event::ConnectionLost { id: id("a"), grace: second });
    let facts = story.wait(1, &["b"]);
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::ConnectionLost));
}

#[test]
fn an_absence_of_the_master_or_a_leap_of_its_clock_loses_no_node() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    let left = |story: &Story| story.rendezvous.next_deadline().map(|deadline| deadline.saturating_sub(story.now));
    let before = left(&story);
    story.now += Duration::from_secs(3600);
    assert_eq!(story.apply(Event::Tick), []);
    assert_eq!(left(&story), before, "the leases are as long as before");
    story.now -= Duration::from_secs(3650);
    assert_eq!(story.apply(Event::Tick), [], "a clock that is set back does not advance");
    assert_eq!(story.rendezvous.members().count(), 3);
}

#[test]
fn after_a_restart_no_node_is_lost_before_the_grace_is_over() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    let text = serde_json::to_string(&story.rendezvous).unwrap();
    let settings = Settings::new(2, 3).unwrap();
    let read: Rendezvous = serde_json::from_str(&text).unwrap();
    story.rendezvous = read.resume(settings, Duration::from_secs(1));
    story.now = Duration::from_secs(1);
    assert_eq!(story.wait(5, &["a", "b"]), []);
    let facts = story.wait(1, &["a", "b"]);
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::NotReconnected));
    assert_eq!(story.rendezvous.world().map(|world| world.round), Some(Round(0)));
}

#[test]
fn a_later_incarnation_of_a_node_replaces_the_earlier_one() {
    let mut story = Story::of(2, 2);
    story.join(&["a", "b"]);
    let facts = story.apply(Event::Join { id: MemberId::new("a", 2), processes: Processes::default() });
    assert!(matches!(&facts[0], Fact::Dropped { cause, .. } if cause.reason == Reason::NodeReplaced));
    assert_eq!(
        story.apply(Event::Join { id: MemberId::new("a", 1), processes: Processes::default() }),
        [],
        "an incarnation between the two"
    );
    assert!(story.leave_and_join(&["b"]).is_some());
}

#[test]
fn a_node_that_is_alive_but_does_not_join_again_is_dropped_after_the_straggler_limit() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.leave_and_join(&["a", "b"]);
    assert_eq!(story.wait(59, &["a", "b", "c"]), []);
    let facts = story.wait(1, &["a", "b", "c"]);
    assert!(
        matches!(&facts[..], [Fact::Dropped { .. }, Fact::Completed { cause, .. }] if cause.reason == Reason::StragglerLeftOut),
        "{facts:?}"
    );
}

#[test]
fn a_failure_of_the_program_is_counted_although_a_straggler_was_dropped() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    for failures in 1..=3 {
        story.leave_and_join(&["a", "b"]);
        story.wait(60, &["a", "b", "c"]);
        assert_eq!(story.rendezvous.program_failures(), failures);
        assert!(story.rendezvous.failed_rounds().len() == failures as usize);
        story.join(&["c"]);
        assert!(story.leave_and_join(&["a", "b"]).is_some(), "the straggler joins as a newcomer, which costs no retry");
    }
    story.leave_and_join(&["a", "b"]);
    story.wait(60, &["a", "b", "c"]);
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RestartsExhausted));
}

#[test]
fn more_nodes_are_needed_when_all_live_members_are_too_few_for_a_world() {
    let mut story = Story::of(2, 3);
    assert!(story.rendezvous.needs_more_nodes(), "no node has joined");
    story.join(&["a", "b", "c"]);
    story.apply(Event::Finish { id: id("a") });
    story.lose("a");
    assert!(!story.rendezvous.needs_more_nodes(), "b and c go on");
    story.leave_and_join(&["b", "c"]);
    story.lose("c");
    assert!(story.rendezvous.needs_more_nodes(), "b alone is too few");
    story.join(&["a"]);
    story.leave_and_join(&["b"]);
    assert!(!story.rendezvous.needs_more_nodes());
    assert_eq!(story.rendezvous.world().map(names), Some(vec!["b", "a"]));
    story.apply(Event::Close { by: id("a") });
    story.lose("a");
    assert!(!story.rendezvous.needs_more_nodes(), "a closed run needs no nodes");
}

#[test]
fn a_closed_run_takes_no_nodes() {
    let mut story = Story::of(1, 2);
    story.join(&["a", "b"]);
    story.apply(Event::Close { by: id("a") });
    assert_eq!(story.join(&["c"]), None);
    assert_eq!(story.rendezvous.state_of(&id("c")), None);
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::ClosedByNode));
    let facts = story.lose("b");
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::NodeEnded), "{facts:?}");
}

#[test]
fn a_run_closes_when_every_node_has_finished() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.apply(Event::Finish { id: id("a") });
    story.apply(Event::Finish { id: id("b") });
    assert_eq!((story.restart_reason(), story.rendezvous.closed()), (None, None), "c still works and is not restarted");
    story.apply(Event::Finish { id: id("c") });
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RunFinished));
}

#[test]
fn a_run_closes_when_its_last_unfinished_node_is_lost() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.apply(Event::Finish { id: id("a") });
    story.apply(Event::Finish { id: id("b") });
    story.lose("c");
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RunFinished));
}

#[test]
fn a_finished_node_joins_again_when_the_others_have_to() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.apply(Event::Finish { id: id("a") });
    story.lose("c");
    assert_eq!(story.restart_reason(), Some(Reason::NodeLost), "b alone is too few");
    assert!(story.leave_and_join(&["a", "b"]).is_some());
    story.apply(Event::Finish { id: id("b") });
    assert_eq!(story.rendezvous.closed(), None, "a works again");
}

#[test]
fn a_round_does_not_wait_for_a_lost_sidecar_once_all_others_have_joined() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.apply(Event::ConnectionLost { id: id("c"), grace: Duration::from_secs(1) });
    assert_eq!(story.restart_reason(), None, "it has a grace to reconnect");
    assert_eq!(story.leave_and_join(&["a"]), None, "b may still be running");
    let world = story.leave_and_join(&["b"]).expect("both joined");
    assert_eq!(names(&world), ["a", "b"]);
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn a_round_waits_for_a_sidecar_that_reconnected() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.apply(Event::ConnectionLost { id: id("c"), grace: Duration::from_secs(1) });
    story.apply(Event::Heartbeat { id: id("c") });
    assert_eq!(story.leave_and_join(&["a", "b"]), None, "c is alive");
    assert!(story.leave_and_join(&["c"]).is_some());
}
