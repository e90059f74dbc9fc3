use std::time::Duration;

use super::*;

/// A protocol with the outbox it has, and a clock.
struct Scenario {
    protocol: SessionProtocol,
    outbox: Outbox,
    now: Instant,
}

fn report(name: &str) -> Op {
    Op::Event(wire::Event { reason: name.to_owned(), message: String::new() })
}

fn world(place: MemberState, round: u64) -> Answer {
    Answer::World(wire::World { state: place.into(), round, ..wire::World::default() })
}

fn refusal(reason: Reason) -> Answer {
    Answer::Refusal(wire::Refusal { reason: reason.to_string(), detail: String::new() })
}

const DONE: Answer = Answer::Done(wire::Done {});
const NEXT: DesiredMembership = DesiredMembership::NextWorld { after: Some(4), survives: false, stood_aside: false };

impl Scenario {
    /// A session that has just begun, and the master's first view of the node.
    fn begin(world: Answer) -> Self {
        let node = wire::Node { name: "a".to_owned(), incarnation: 7 };
        let mut scenario = Self { protocol: SessionProtocol::new(node, 2), outbox: Outbox::new(), now: Instant::now() };
        let open = scenario.protocol.open();
        assert_eq!(scenario.next(), None, "nothing is sent before the first view");
        scenario.answer(open.id, world);
        scenario
    }

    fn next(&mut self) -> Option<wire::Request> {
        self.protocol.next_request(&self.outbox, self.now)
    }

    fn asks(&mut self) -> (u64, Op) {
        let request = self.next().expect("a request is due");
        (request.id, request.op.expect("every request has an operation"))
    }

    fn answer(&mut self, id: u64, answer: Answer) -> ReplyEffect {
        let reply = wire::Reply { id, result: Some(answer), ..wire::Reply::default() };
        let effect = self.protocol.handle_reply(reply, self.now);
        if let ReplyEffect::ReportHandled(_) = effect {
            self.outbox.reports.pop_front();
        }
        effect
    }

    fn has_delivered(&self) -> bool {
        self.protocol.has_delivered(&self.outbox)
    }

    /// Longer than any delay.
    fn later(&mut self) {
        self.now += Duration::from_secs(2);
    }
}

#[tokio::test]
async fn an_unknown_state_of_the_node_is_refused() {
    for state in [MemberState::Unspecified as i32, 99] {
        let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
        let effect = scenario.answer(0, Answer::World(wire::World { state, ..wire::World::default() }));
        let ReplyEffect::SessionRefused(cause) = &effect else { panic!("{effect:?}") };
        assert!(cause.ends_with(&format!("unknown: {state}")), "{cause}");
    }
}

#[tokio::test]
async fn reports_are_sent_in_order_before_the_desired_membership() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.set_desired(NEXT);
    scenario.outbox.report(report("first"));
    scenario.outbox.report(report("second"));
    for name in ["first", "second"] {
        let (id, op) = scenario.asks();
        assert_eq!(op, report(name));
        assert_eq!(scenario.next(), None, "the next report waits for the answer");
        assert_eq!(scenario.answer(id, DONE), ReplyEffect::ReportHandled(None));
    }
    assert!(!scenario.has_delivered());
    let (id, op) = scenario.asks();
    assert_eq!(op, Op::Join(wire::Join { processes: 2, survives: false, after: Some(4) }));
    scenario.answer(id, world(MemberState::Joined, 5));
    assert!(scenario.next().is_none() && scenario.has_delivered());
}

#[tokio::test]
async fn a_report_is_repeated_while_the_journal_is_full_and_dropped_on_any_other_refusal() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.report(report("one"));
    for _ in 0..3 {
        let (id, _) = scenario.asks();
        assert!(matches!(scenario.answer(id, refusal(Reason::JournalFull)), ReplyEffect::Refused(_)));
        assert_eq!(scenario.next(), None, "not without a delay");
        assert!(scenario.protocol.next_wakeup(scenario.now).is_some());
        scenario.later();
    }
    let (id, _) = scenario.asks();
    assert!(matches!(scenario.answer(id, refusal(Reason::ProtocolViolation)), ReplyEffect::ReportHandled(Some(_))));
    assert!(scenario.has_delivered());
}

#[tokio::test]
async fn a_node_that_is_dropped_while_it_waits_joins_again() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.set_desired(NEXT);
    let (id, _) = scenario.asks();
    scenario.answer(id, world(MemberState::Joined, 5));
    assert_eq!(scenario.next(), None);
    scenario.later();
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Poll(_)), "the master does not notify a node that it drops: {op:?}");
    scenario.answer(id, world(MemberState::Outside, 5));
    assert!(matches!(scenario.asks(), (_, Op::Join(_))));
}

#[tokio::test]
async fn a_working_node_that_is_dropped_waits_for_its_launcher() {
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 5));
    scenario.answer(0, world(MemberState::Outside, 6));
    scenario.later();
    assert_eq!(scenario.next(), None, "its workers are still in the old world");
}

#[tokio::test]
async fn a_node_that_stands_aside_departs_from_every_master_that_counts_it_in() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.set_desired(DesiredMembership::Absent("why"));
    assert!(scenario.next().is_none() && scenario.has_delivered());
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 5));
    scenario.outbox.set_desired(DesiredMembership::Absent("why"));
    let (id, op) = scenario.asks();
    assert_eq!(op, Op::Depart(wire::Depart { detail: "why".to_owned() }));
    scenario.answer(id, DONE);
    assert!(scenario.has_delivered(), "the next world message shows whether it had an effect");
    scenario.answer(0, world(MemberState::Joined, 5));
    assert!(!scenario.has_delivered());
    scenario.later();
    assert!(matches!(scenario.asks(), (_, Op::Depart(_))));
}

#[tokio::test]
async fn a_node_that_stood_aside_departs_before_it_joins_another_world() {
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 4));
    scenario.outbox.set_desired(DesiredMembership::NextWorld { after: Some(4), survives: false, stood_aside: true });
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Depart(_)), "a join would look like a failure of the program: {op:?}");
    scenario.answer(id, DONE);
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Poll(_)), "the master need not notify: {op:?}");
    scenario.answer(id, world(MemberState::Outside, 5));
    assert!(matches!(scenario.asks(), (_, Op::Join(_))), "at once");
}

#[tokio::test]
async fn a_node_that_has_joined_does_not_join_twice() {
    let mut scenario = Scenario::begin(world(MemberState::Joined, 5));
    scenario.outbox.set_desired(NEXT);
    assert!(scenario.next().is_none() && scenario.has_delivered(), "the join may have led to a world in the meantime");
    // With other workers than those it joined with.
    scenario.outbox.set_desired(DesiredMembership::NextWorld { after: Some(4), survives: false, stood_aside: true });
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Depart(_)), "{op:?}");
    scenario.answer(id, DONE);
    let (id, _) = scenario.asks();
    scenario.answer(id, world(MemberState::Outside, 5));
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Join(_)), "{op:?}");
    scenario.answer(id, world(MemberState::Joined, 5));
    assert!(scenario.next().is_none() && scenario.has_delivered());
}

#[tokio::test]
async fn a_join_without_effect_is_repeated_only_after_a_delay() {
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 4));
    scenario.outbox.set_desired(NEXT);
    let (id, _) = scenario.asks();
    scenario.answer(id, world(MemberState::InWorld, 4));
    assert_eq!(scenario.next(), None);
    scenario.later();
    assert!(scenario.next().is_some());
}

#[tokio::test]
async fn only_the_reason_node_fenced_fences_a_node() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.set_desired(NEXT);
    let (id, _) = scenario.asks();
    assert!(matches!(scenario.answer(id, refusal(Reason::JournalFull)), ReplyEffect::Refused(_)));
    scenario.later();
    let (id, _) = scenario.asks();
    assert!(matches!(scenario.answer(id, refusal(Reason::NodeFenced)), ReplyEffect::Fenced(_)));
}

#[tokio::test]
async fn a_finished_node_reports_it_once_per_session() {
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 5));
    scenario.outbox.set_desired(DesiredMembership::Finished { stood_aside: false });
    let (id, op) = scenario.asks();
    assert_eq!(op, Op::Finish(wire::Finish {}));
    scenario.answer(id, DONE);
    scenario.answer(0, world(MemberState::InWorld, 5));
    scenario.later();
    assert!(scenario.next().is_none() && scenario.has_delivered());
}

#[tokio::test]
async fn a_node_that_finished_outside_a_world_departs_instead() {
    let mut scenario = Scenario::begin(world(MemberState::InWorld, 5));
    scenario.outbox.set_desired(DesiredMembership::Finished { stood_aside: true });
    let (id, op) = scenario.asks();
    assert!(matches!(op, Op::Depart(_)), "others would wait for it in the next world: {op:?}");
    scenario.answer(id, DONE);
    scenario.answer(0, world(MemberState::Outside, 6));
    scenario.later();
    assert!(scenario.next().is_none() && scenario.has_delivered());
}

#[tokio::test]
async fn a_finished_node_that_was_dropped_sends_nothing_until_it_is_needed() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 6));
    scenario.outbox.set_desired(DesiredMembership::Finished { stood_aside: false });
    assert!(scenario.next().is_none() && scenario.has_delivered());
    let outside = wire::World { state: MemberState::Outside.into(), needs_more_nodes: true, ..wire::World::default() };
    let effect = scenario.answer(0, Answer::World(outside));
    assert_eq!(effect, ReplyEffect::State(NodeState::Waiting { needed: true }));
}

#[tokio::test]
async fn processes_opt_in_once_in_every_round_and_session() {
    let mut scenario = Scenario::begin(world(MemberState::Outside, 5));
    scenario.outbox.survives_changes = true;
    assert_eq!(scenario.next(), None, "a node in no world does not opt in");
    for round in [5, 6] {
        scenario.answer(0, world(MemberState::InWorld, round));
        let (id, op) = scenario.asks();
        assert_eq!(op, Op::OptIn(wire::OptIn {}));
        scenario.answer(id, DONE);
        assert_eq!(scenario.next(), None);
    }
    scenario.answer(0, world(MemberState::InWorld, 7));
    let (id, _) = scenario.asks();
    assert!(matches!(scenario.answer(id, refusal(Reason::JournalFull)), ReplyEffect::Refused(_)));
    scenario.later();
    assert!(matches!(scenario.asks(), (_, Op::OptIn(_))), "repeated");
}
