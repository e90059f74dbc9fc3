//! What a rendezvous decides, told as stories.

use flexor_model::Rank;

use super::*;

/// A rendezvous with a clock that the story turns.
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

    fn tell(&mut self, event: Event) -> Vec<Fact> {
        self.rendezvous.handle(event, self.now)
    }

    fn join(&mut self, names: &[&str]) -> Option<World> {
        let before = self.rendezvous.world().cloned();
        for name in names {
            self.tell(Event::Join { id: id(name), processes: Processes::default() });
        }
        self.rendezvous.world().cloned().filter(|world| Some(world) != before.as_ref())
    }

    fn leave_and_join(&mut self, names: &[&str]) -> Option<World> {
        for name in names {
            self.tell(Event::Leave { id: id(name) });
        }
        self.join(names)
    }

    fn lose(&mut self, name: &str) -> Vec<Fact> {
        self.tell(Event::Gone { id: id(name), cause: Cause::new(Reason::ConnectionClosed, "closed") })
    }

    /// Lets time pass second by second; everyone named is heard in each.
    fn wait(&mut self, seconds: u64, heard: &[&str]) -> Vec<Fact> {
        let mut facts = Vec::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            for name in heard {
                facts.extend(self.tell(Event::Heard { id: id(name) }));
            }
            facts.extend(self.tell(Event::Tick));
        }
        facts
    }

    fn wanted(&self) -> Option<Reason> {
        self.rendezvous.restart_wanted().map(|cause| cause.reason)
    }
}

fn id(name: &str) -> MemberId {
    MemberId::new(name, 0)
}

fn names(world: &World) -> Vec<&str> {
    world.members.iter().map(|member| &*member.name).collect()
}

#[test]
fn the_greatest_world_completes_at_once() {
    let mut story = Story::of(2, 3);
    assert_eq!(story.join(&["b", "a"]), None);
    let world = story.join(&["c"]).expect("complete");
    assert_eq!((world.round, names(&world)), (Round(0), vec!["a", "b", "c"]));
    assert_eq!(world.rank_of(&id("b")), Some(Rank(1)));
    assert_eq!(story.wanted(), None);
}

#[test]
fn a_first_round_of_unknown_size_makes_a_last_call() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b"]);
    assert_eq!(story.rendezvous.standing().reason, Reason::WaitingForExpected);
    assert_eq!(story.wait(29, &["a", "b"]), []);
    let facts = story.wait(1, &["a", "b"]);
    assert!(matches!(&facts[..], [Fact::Completed { cause, .. }] if cause.reason == Reason::LastCallOver));
}

#[test]
fn the_expected_number_completes_at_once() {
    let mut story = Story::of(2, 8);
    story.tell(Event::Expect { nodes: Some(3) });
    assert_eq!(story.join(&["a", "b"]), None);
    assert_eq!(names(&story.join(&["c"]).expect("complete")), ["a", "b", "c"]);
}

#[test]
fn when_the_last_missing_node_is_no_longer_expected_the_round_completes() {
    let mut story = Story::of(2, 8);
    story.tell(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b"]);
    let facts = story.tell(Event::Expect { nodes: Some(2) });
    assert!(matches!(&facts[..], [Fact::Expected { .. }, Fact::Completed { .. }]), "{facts:?}");
}

#[test]
fn newcomers_never_push_out_a_world_that_stands() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    assert_eq!(story.join(&["c", "d"]), None);
    assert_eq!(story.wanted(), None, "a and b are the two that are expected; c and d are spares");
    story.tell(Event::Expect { nodes: Some(3) });
    assert_eq!(story.wanted(), Some(Reason::NodeJoined), "now there is a place for one");
    assert_eq!(names(&story.leave_and_join(&["a", "b"]).expect("complete")), ["a", "b", "c"]);
    assert_eq!(story.rendezvous.place_of(&id("d")), Some(Place::Spare));
}

#[test]
fn a_newcomer_that_goes_again_leaves_no_restart_behind() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    story.tell(Event::Expect { nodes: Some(4) });
    story.join(&["c"]);
    story.lose("c");
    story.wait(31, &["a", "b"]);
    assert_eq!(story.wanted(), None);
    story.leave_and_join(&["a", "b"]);
    assert_eq!(story.rendezvous.program_failures(), 1, "and no excuse for the program");
}

#[test]
fn a_scale_down_is_no_failure_of_the_program() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b", "c"]);
    story.tell(Event::Expect { nodes: Some(2) });
    assert!(story.leave_and_join(&["a", "b"]).is_some(), "c is going but its end is not known yet");
    assert_eq!(story.rendezvous.program_failures(), 0);
    story.join(&["c"]);
    assert_eq!(story.rendezvous.place_of(&id("c")), Some(Place::Spare), "it is one too many");
    assert_eq!(story.wanted(), None);
}

#[test]
fn a_smaller_expected_number_leaves_out_who_does_not_come_back() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(3) });
    story.join(&["a", "b", "c"]);
    story.tell(Event::Expect { nodes: Some(2) });
    let world = story.leave_and_join(&["a", "b"]).expect("two are enough");
    assert_eq!(names(&world), ["a", "b"]);
}

#[test]
fn survivors_of_a_lost_node_go_on_as_soon_as_they_have_met() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.lose("a");
    assert_eq!(story.wanted(), Some(Reason::NodeLost));
    assert_eq!(story.leave_and_join(&["b"]), None);
    assert_eq!(story.rendezvous.standing().reason, Reason::WaitingForMembers);
    let world = story.leave_and_join(&["c"]).expect("complete");
    assert_eq!((world.round, names(&world)), (Round(1), vec!["c", "b"]), "b keeps its rank");
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn a_loss_seen_after_the_survivors_met_still_costs_no_retry() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    assert_eq!(story.leave_and_join(&["b", "c"]), None, "a is alive as far as we know");
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
    assert_eq!(story.rendezvous.standing().reason, Reason::WaitingForMinimum);
    assert_eq!(names(&story.join(&["d"]).expect("complete")), ["a", "b", "d"]);
}

#[test]
fn a_newcomer_makes_the_world_meet_again_and_grow() {
    let mut story = Story::of(2, 3);
    story.tell(Event::Expect { nodes: Some(2) });
    story.join(&["a", "b"]);
    story.tell(Event::Expect { nodes: None });
    story.join(&["c"]);
    assert_eq!(story.wanted(), Some(Reason::NodeJoined));
    let world = story.leave_and_join(&["a", "b"]).expect("complete");
    assert_eq!(names(&world), ["a", "b", "c"]);
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn the_world_is_not_disturbed_before_all_expected_newcomers_are_there() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(1) });
    story.join(&["a"]);
    story.tell(Event::Expect { nodes: Some(3) });
    story.join(&["b"]);
    assert_eq!(story.wanted(), None);
    story.join(&["c"]);
    assert_eq!(story.wanted(), Some(Reason::NodeJoined));
}

#[test]
fn an_expected_node_that_never_comes_delays_growth_only_for_the_last_call() {
    let mut story = Story::of(1, 8);
    story.tell(Event::Expect { nodes: Some(1) });
    story.join(&["a"]);
    story.tell(Event::Expect { nodes: Some(3) });
    story.join(&["b"]);
    story.wait(31, &["a", "b"]);
    assert_eq!(story.wanted(), Some(Reason::NodeJoined));
}

#[test]
fn a_node_too_many_is_kept_as_a_spare_and_takes_the_place_of_a_lost_one() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.join(&["s"]);
    assert_eq!(story.rendezvous.place_of(&id("s")), Some(Place::Spare));
    assert_eq!(story.wanted(), None, "a spare disturbs nobody");
    story.lose("b");
    assert_eq!(names(&story.leave_and_join(&["a", "c"]).expect("complete")), ["a", "s", "c"]);
}

#[test]
fn spares_do_not_push_out_a_survivor_that_is_on_its_way() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.join(&["s", "t"]);
    story.lose("c");
    assert_eq!(story.leave_and_join(&["a"]), None, "two spares would fill the world, but b is alive");
    assert_eq!(names(&story.leave_and_join(&["b"]).expect("complete")), ["a", "b", "s"]);
    assert_eq!(story.rendezvous.place_of(&id("t")), Some(Place::Spare));
}

#[test]
fn spares_take_over_when_the_whole_world_is_lost() {
    let mut story = Story::of(1, 1);
    story.join(&["a"]);
    story.join(&["s"]);
    let facts = story.lose("a");
    assert!(matches!(&facts[..], [Fact::Dropped { .. }, Fact::Completed { .. }]), "{facts:?}");
}

#[test]
fn a_world_is_a_multiple_of_the_node_unit_and_grows_by_it() {
    let mut story = Story::with(Settings::new(2, 6).unwrap().with_unit(2).unwrap());
    story.tell(Event::Expect { nodes: Some(3) });
    assert_eq!(names(&story.join(&["a", "b", "c"]).expect("complete")), ["a", "b"]);
    assert_eq!(story.rendezvous.place_of(&id("c")), Some(Place::Spare));
    story.tell(Event::Expect { nodes: None });
    story.join(&["d"]);
    assert_eq!(story.wanted(), Some(Reason::NodeJoined), "c and d make a unit");
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

    story.tell(Event::Reopen);
    assert_eq!(story.rendezvous.program_failures(), 0);
    assert!(story.rendezvous.closed().is_none());
}

#[test]
fn a_silent_node_is_dropped_and_what_it_says_later_about_the_old_world_does_not_count() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    let facts = story.wait(10, &["a", "b"]);
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::NodeSilent), "{facts:?}");
    assert_eq!(story.tell(Event::Leave { id: id("c") }), []);
    assert_eq!(story.tell(Event::Close { by: id("c") }), []);
    story.leave_and_join(&["a", "b"]);
    story.join(&["c"]);
    assert_eq!(story.wanted(), Some(Reason::NodeJoined), "it may come again as a newcomer");
}

#[test]
fn a_lost_sidecar_has_a_moment_to_come_back() {
    let mut story = Story::of(2, 2);
    story.join(&["a", "b"]);
    let second = Duration::from_secs(1);
    story.tell(Event::ConnectionLost { id: id("a"), grace: second });
    story.now += Duration::from_millis(900);
    story.tell(Event::Heard { id: id("a") });
    assert_eq!(story.wait(2, &["b"]), [], "it came back");
    story.tell(Event::ConnectionLost { id: id("a"), grace: second });
    let facts = story.wait(1, &["b"]);
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::ConnectionLost));
}

#[test]
fn an_absence_of_the_master_or_a_leap_of_its_clock_loses_nobody() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    let left = |story: &Story| story.rendezvous.next_deadline().map(|deadline| deadline.saturating_sub(story.now));
    let before = left(&story);
    story.now += Duration::from_secs(3600);
    assert_eq!(story.tell(Event::Tick), []);
    assert_eq!(left(&story), before, "they have as long as ever");
    story.now -= Duration::from_secs(3650);
    assert_eq!(story.tell(Event::Tick), [], "backwards is standing still");
    assert_eq!(story.rendezvous.members().count(), 3);
}

#[test]
fn after_a_restart_nobody_is_lost_before_the_grace_is_over() {
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
fn the_later_life_of_a_node_ends_the_earlier_one() {
    let mut story = Story::of(2, 2);
    story.join(&["a", "b"]);
    let facts = story.tell(Event::Join { id: MemberId::new("a", 2), processes: Processes::default() });
    assert!(matches!(&facts[0], Fact::Dropped { cause, .. } if cause.reason == Reason::NodeReplaced));
    assert_eq!(
        story.tell(Event::Join { id: MemberId::new("a", 1), processes: Processes::default() }),
        [],
        "a life that was overtaken"
    );
    assert!(story.leave_and_join(&["b"]).is_some());
}

#[test]
fn a_node_that_is_alive_but_never_joins_again_is_left_out_in_the_end() {
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
fn a_program_that_fails_is_counted_though_a_node_of_its_world_is_too_slow_to_come() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    for failures in 1..=3 {
        story.leave_and_join(&["a", "b"]);
        story.wait(60, &["a", "b", "c"]);
        assert_eq!(story.rendezvous.program_failures(), failures);
        assert!(story.rendezvous.failed_rounds().len() == failures as usize);
        story.join(&["c"]);
        assert!(story.leave_and_join(&["a", "b"]).is_some(), "and it comes again as a newcomer, for nothing");
    }
    story.leave_and_join(&["a", "b"]);
    story.wait(60, &["a", "b", "c"]);
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RestartsExhausted));
}

#[test]
fn there_are_too_few_when_not_even_all_who_are_here_could_be_a_world() {
    let mut story = Story::of(2, 3);
    assert!(story.rendezvous.is_too_small(), "nobody is here");
    story.join(&["a", "b", "c"]);
    story.tell(Event::Finish { id: id("a") });
    story.lose("a");
    assert!(!story.rendezvous.is_too_small(), "b and c go on");
    story.leave_and_join(&["b", "c"]);
    story.lose("c");
    assert!(story.rendezvous.is_too_small(), "b cannot");
    story.join(&["a"]);
    story.leave_and_join(&["b"]);
    assert!(!story.rendezvous.is_too_small());
    assert_eq!(story.rendezvous.world().map(names), Some(vec!["b", "a"]));
    story.tell(Event::Close { by: id("a") });
    story.lose("a");
    assert!(!story.rendezvous.is_too_small(), "nobody is needed for what is over");
}

#[test]
fn a_closed_run_takes_nobody() {
    let mut story = Story::of(1, 2);
    story.join(&["a", "b"]);
    story.tell(Event::Close { by: id("a") });
    assert_eq!(story.join(&["c"]), None);
    assert_eq!(story.rendezvous.place_of(&id("c")), None);
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::ClosedByNode));
    let facts = story.lose("b");
    assert!(matches!(&facts[..], [Fact::Dropped { cause, .. }] if cause.reason == Reason::NodeEnded), "{facts:?}");
}

#[test]
fn a_run_is_over_when_every_node_has_finished() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.tell(Event::Finish { id: id("a") });
    story.tell(Event::Finish { id: id("b") });
    assert_eq!((story.wanted(), story.rendezvous.closed()), (None, None), "c still works, and nobody disturbs it");
    story.tell(Event::Finish { id: id("c") });
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RunFinished));
}

#[test]
fn a_node_that_is_lost_while_all_others_have_finished_keeps_nobody() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.tell(Event::Finish { id: id("a") });
    story.tell(Event::Finish { id: id("b") });
    story.lose("c");
    assert_eq!(story.rendezvous.closed().map(|cause| cause.reason), Some(Reason::RunFinished));
}

#[test]
fn who_has_finished_meets_again_when_others_have_to() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.tell(Event::Finish { id: id("a") });
    story.lose("c");
    assert_eq!(story.wanted(), Some(Reason::NodeLost), "b cannot go on alone");
    assert!(story.leave_and_join(&["a", "b"]).is_some());
    story.tell(Event::Finish { id: id("b") });
    assert_eq!(story.rendezvous.closed(), None, "a works again");
}

#[test]
fn a_sidecar_that_is_lost_while_all_others_meet_again_is_not_waited_for() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.tell(Event::ConnectionLost { id: id("c"), grace: Duration::from_secs(1) });
    assert_eq!(story.wanted(), None, "it has a moment to come back");
    assert_eq!(story.leave_and_join(&["a"]), None, "b may stand");
    let world = story.leave_and_join(&["b"]).expect("both meet at once");
    assert_eq!(names(&world), ["a", "b"]);
    assert_eq!(story.rendezvous.program_failures(), 0);
}

#[test]
fn a_sidecar_that_came_back_is_waited_for() {
    let mut story = Story::of(2, 3);
    story.join(&["a", "b", "c"]);
    story.tell(Event::ConnectionLost { id: id("c"), grace: Duration::from_secs(1) });
    story.tell(Event::Heard { id: id("c") });
    assert_eq!(story.leave_and_join(&["a", "b"]), None, "c is on its way");
    assert!(story.leave_and_join(&["c"]).is_some());
}
