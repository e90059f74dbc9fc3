use std::time::Duration;

use super::*;

/// A dialogue with the errands it has, and a clock.
struct Story {
    dialogue: Dialogue,
    errands: Errands,
    now: Instant,
}

fn report(name: &str) -> Op {
    Op::Event(wire::Event { reason: name.to_owned(), message: String::new() })
}

fn world(place: Said, round: u64) -> Answer {
    Answer::World(wire::World { state: place.into(), round, ..wire::World::default() })
}

fn refusal(reason: Reason) -> Answer {
    Answer::Refusal(wire::Refusal { reason: reason.to_string(), detail: String::new() })
}

const DONE: Answer = Answer::Done(wire::Done {});
const NEXT: Wanted = Wanted::World { after: Some(4), survives: false, apart: false };

impl Story {
    /// A session that has just begun; the node stands here.
    fn begin(stands: Answer) -> Self {
        let node = wire::Node { name: "a".to_owned(), incarnation: 7 };
        let mut story = Self { dialogue: Dialogue::new(node, 2), errands: Errands::new(), now: Instant::now() };
        let open = story.dialogue.open();
        assert_eq!(story.next(), None, "nothing before it is known where the node stands");
        story.answer(open.id, stands);
        story
    }

    fn next(&mut self) -> Option<wire::Request> {
        self.dialogue.next(&self.errands, self.now)
    }

    fn asks(&mut self) -> (u64, Op) {
        let request = self.next().expect("there is something to say");
        (request.id, request.op.expect("a request asks for something"))
    }

    fn answer(&mut self, id: u64, answer: Answer) -> Heard {
        let reply = wire::Reply { id, result: Some(answer), ..wire::Reply::default() };
        let heard = self.dialogue.hear(reply, self.now);
        if let Heard::Report(_) = heard {
            self.errands.reports.pop_front();
        }
        heard
    }

    fn is_settled(&self) -> bool {
        self.dialogue.is_settled(&self.errands)
    }

    /// Longer than any pause.
    fn later(&mut self) {
        self.now += Duration::from_secs(2);
    }
}

#[tokio::test]
async fn what_happened_is_told_in_order_before_what_is_wanted() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.want(NEXT);
    story.errands.report(report("first"));
    story.errands.report(report("second"));
    for name in ["first", "second"] {
        let (id, op) = story.asks();
        assert_eq!(op, report(name));
        assert_eq!(story.next(), None, "the next waits for the answer");
        assert_eq!(story.answer(id, DONE), Heard::Report(None));
    }
    assert!(!story.is_settled());
    let (id, op) = story.asks();
    assert_eq!(op, Op::Join(wire::Join { processes: 2, survives: false, after: Some(4) }));
    story.answer(id, world(Said::Joined, 5));
    assert!(story.next().is_none() && story.is_settled());
}

#[tokio::test]
async fn a_report_is_said_again_while_the_journal_is_full_and_no_more_when_it_is_refused_otherwise() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.report(report("one"));
    for _ in 0..3 {
        let (id, _) = story.asks();
        assert!(matches!(story.answer(id, refusal(Reason::JournalFull)), Heard::Refused(_)));
        assert_eq!(story.next(), None, "not without a pause");
        assert!(story.dialogue.wakes_at(story.now).is_some());
        story.later();
    }
    let (id, _) = story.asks();
    assert!(matches!(story.answer(id, refusal(Reason::ProtocolViolation)), Heard::Report(Some(_))));
    assert!(story.is_settled());
}

#[tokio::test]
async fn a_node_that_is_dropped_while_it_waits_joins_again() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.want(NEXT);
    let (id, _) = story.asks();
    story.answer(id, world(Said::Joined, 5));
    assert_eq!(story.next(), None);
    story.later();
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Poll(_)), "nobody tells who is dropped: {op:?}");
    story.answer(id, world(Said::Outside, 5));
    assert!(matches!(story.asks(), (_, Op::Join(_))));
}

#[tokio::test]
async fn a_node_that_works_and_is_dropped_waits_for_its_launcher() {
    let mut story = Story::begin(world(Said::InWorld, 5));
    story.answer(0, world(Said::Outside, 6));
    story.later();
    assert_eq!(story.next(), None, "its workers are in the old world yet");
}

#[tokio::test]
async fn who_stands_aside_says_so_to_every_master_that_thinks_otherwise() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.want(Wanted::Absence("why"));
    assert!(story.next().is_none() && story.is_settled());
    let mut story = Story::begin(world(Said::InWorld, 5));
    story.errands.want(Wanted::Absence("why"));
    let (id, op) = story.asks();
    assert_eq!(op, Op::Depart(wire::Depart { detail: "why".to_owned() }));
    story.answer(id, DONE);
    assert!(story.is_settled(), "what the master says next shows whether it understood");
    story.answer(0, world(Said::Joined, 5));
    assert!(!story.is_settled());
    story.later();
    assert!(matches!(story.asks(), (_, Op::Depart(_))));
}

#[tokio::test]
async fn who_stood_aside_leaves_its_world_before_it_joins_another() {
    let mut story = Story::begin(world(Said::InWorld, 4));
    story.errands.want(Wanted::World { after: Some(4), survives: false, apart: true });
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Depart(_)), "otherwise it would look as if the program had failed: {op:?}");
    story.answer(id, DONE);
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Poll(_)), "the master need not say it by itself: {op:?}");
    story.answer(id, world(Said::Outside, 5));
    assert!(matches!(story.asks(), (_, Op::Join(_))), "at once");
}

#[tokio::test]
async fn who_has_joined_does_not_say_so_again() {
    let mut story = Story::begin(world(Said::Joined, 5));
    story.errands.want(NEXT);
    assert!(story.next().is_none() && story.is_settled(), "a world may have come of it in the meantime");
    // With other workers than those that it joined with.
    story.errands.want(Wanted::World { after: Some(4), survives: false, apart: true });
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Depart(_)), "{op:?}");
    story.answer(id, DONE);
    let (id, _) = story.asks();
    story.answer(id, world(Said::Outside, 5));
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Join(_)), "{op:?}");
    story.answer(id, world(Said::Joined, 5));
    assert!(story.next().is_none() && story.is_settled());
}

#[tokio::test]
async fn a_join_that_changes_nothing_is_not_said_in_a_circle() {
    let mut story = Story::begin(world(Said::InWorld, 4));
    story.errands.want(NEXT);
    let (id, _) = story.asks();
    story.answer(id, world(Said::InWorld, 4));
    assert_eq!(story.next(), None);
    story.later();
    assert!(story.next().is_some());
}

#[tokio::test]
async fn only_one_reason_makes_a_node_somebody_else() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.want(NEXT);
    let (id, _) = story.asks();
    assert!(matches!(story.answer(id, refusal(Reason::JournalFull)), Heard::Refused(_)));
    story.later();
    let (id, _) = story.asks();
    assert!(matches!(story.answer(id, refusal(Reason::NodeFenced)), Heard::Fenced(_)));
}

#[tokio::test]
async fn work_that_is_done_is_told_once_in_a_session() {
    let mut story = Story::begin(world(Said::InWorld, 5));
    story.errands.want(Wanted::Rest { apart: false });
    let (id, op) = story.asks();
    assert_eq!(op, Op::Finish(wire::Finish {}));
    story.answer(id, DONE);
    story.answer(0, world(Said::InWorld, 5));
    story.later();
    assert!(story.next().is_none() && story.is_settled());
}

#[tokio::test]
async fn work_that_was_done_outside_a_world_is_told_to_no_master_that_thinks_otherwise() {
    let mut story = Story::begin(world(Said::InWorld, 5));
    story.errands.want(Wanted::Rest { apart: true });
    let (id, op) = story.asks();
    assert!(matches!(op, Op::Depart(_)), "others would wait for it in the next world: {op:?}");
    story.answer(id, DONE);
    story.answer(0, world(Said::Outside, 6));
    story.later();
    assert!(story.next().is_none() && story.is_settled());
}

#[tokio::test]
async fn who_is_dropped_after_its_work_was_done_says_nothing_until_it_is_needed() {
    let mut story = Story::begin(world(Said::Outside, 6));
    story.errands.want(Wanted::Rest { apart: false });
    assert!(story.next().is_none() && story.is_settled());
    let outside = wire::World { state: Said::Outside.into(), needs_more_nodes: true, ..wire::World::default() };
    let heard = story.answer(0, Answer::World(outside));
    assert_eq!(heard, Heard::Stands(Place::Waiting { needed: true }));
}

#[tokio::test]
async fn that_processes_outlive_changes_is_told_once_in_every_round_and_session() {
    let mut story = Story::begin(world(Said::Outside, 5));
    story.errands.outlives = true;
    assert_eq!(story.next(), None, "not of those who are in no world");
    for round in [5, 6] {
        story.answer(0, world(Said::InWorld, round));
        let (id, op) = story.asks();
        assert_eq!(op, Op::OptIn(wire::OptIn {}));
        story.answer(id, DONE);
        assert_eq!(story.next(), None);
    }
    story.answer(0, world(Said::InWorld, 7));
    let (id, _) = story.asks();
    assert!(matches!(story.answer(id, refusal(Reason::JournalFull)), Heard::Refused(_)));
    story.later();
    assert!(matches!(story.asks(), (_, Op::OptIn(_))), "said again");
}
