//! Stories of one sidecar, told message by message.

use bytes::Bytes;
use flexor_wire::master::v1::{
    CloseConnection, Durable, Named, NodeClock, OpenConnection, Operation, from_sidecar::Message,
};

use super::*;

const CLOCK: Option<NodeClock> = Some(NodeClock { naive: true, unix_us: 5 });

/// A sidecar whose master is the test.
struct Story {
    relay: Relay,
    out: Outbox,
}

impl Story {
    fn begin() -> Story {
        let pod = Pod { name: "worker-0".to_owned(), uid: "uid-0".to_owned() };
        Story { relay: Relay::new(pod, 7), out: Outbox::default() }
    }

    fn linked() -> Story {
        let mut story = Story::begin();
        story.link(1, 0);
        story
    }

    /// Opens a link and welcomes the sidecar; what it says after Hello.
    fn link(&mut self, generation: u64, durable_seq: u64) -> Vec<Message> {
        self.relay.link_opened();
        assert!(matches!(self.said()[..], [Message::Hello(_)]));
        self.hear(to_sidecar::Message::Welcome(Welcome { generation, durable_seq })).unwrap();
        self.said()
    }

    fn lose_link(&mut self) {
        self.relay.link_lost(&mut self.out);
        assert_eq!(self.said(), []);
    }

    /// A client says VALIDATE, as all do.
    fn client(&mut self) -> ConnId {
        let conn = ConnId::fresh();
        self.ask(conn, Request::Validate);
        conn
    }

    fn ask(&mut self, conn: ConnId, request: Request) {
        self.relay.request(conn, request, &mut self.out);
    }

    fn hear(&mut self, message: to_sidecar::Message) -> Result<(), LinkFault> {
        self.relay.heard(ToSidecar { message: Some(message) }, &mut self.out)
    }

    fn answer(&mut self, connection: u64, number: u64, reply: &'static [u8], results: Vec<KeyResult>) {
        let answer = Answer { connection, number, reply: Bytes::from_static(reply), results };
        self.hear(to_sidecar::Message::Answer(answer)).unwrap();
    }

    fn said(&mut self) -> Vec<Message> {
        self.relay.take_messages()
    }

    /// What clients were sent.
    fn sent(&mut self) -> Vec<(ConnId, Bytes)> {
        self.out.take_sent()
    }
}

fn key(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

fn get(name: &'static str) -> Request {
    Request::Get { key: key(name) }
}

fn set(name: &'static str) -> Request {
    Request::Set { key: key(name), value: Bytes::from_static(b"v") }
}

fn wait(name: &'static str) -> Request {
    Request::Wait { keys: vec![key(name)] }
}

fn barrier() -> Request {
    Request::Barrier { key: key("b"), world_size: 2 }
}

fn operation(connection: u64, number: u64, request: &Request) -> Message {
    Message::Operation(Operation { connection, number, request: request.to_bytes() })
}

fn open(connection: u64, answered: u64) -> Message {
    Message::Open(OpenConnection { connection, node: String::new(), answered, clock: None })
}

fn result(seq: u64, name: &'static str) -> KeyResult {
    KeyResult { seq, key: key(name), value: Some(Bytes::from_static(b"v")), ..KeyResult::default() }
}

fn replies(conn: ConnId, bytes: &'static [u8]) -> Vec<(ConnId, Bytes)> {
    vec![(conn, Bytes::from_static(bytes))]
}

#[test]
fn the_greeting_names_the_pod_the_link_and_the_latest_generation() {
    let mut story = Story::linked();
    story.lose_link();
    story.relay.link_opened();
    let [Message::Hello(hello)] = &story.said()[..] else { panic!("no Hello") };
    assert_eq!((hello.version, &*hello.pod, &*hello.pod_uid, hello.link), (1, "worker-0", "uid-0", 7));
    assert_eq!(hello.generation, 1);
}

#[test]
fn a_ping_is_answered_here_and_the_greeting_of_a_client_goes_nowhere() {
    let mut story = Story::begin();
    let client = story.client();
    story.ask(client, Request::Ping { nonce: 0x7e18 });
    assert_eq!(story.sent(), replies(client, &[0x18, 0x7e, 0, 0]));
    assert_eq!(story.link(1, 0), [open(1, 0), Message::Ready(Ready {})]);
}

#[test]
fn a_connection_that_says_nothing_is_never_announced() {
    let mut story = Story::linked();
    story.relay.closed(ConnId::fresh(), &mut story.out);
    assert_eq!(story.said(), []);
}

#[test]
fn what_was_asked_while_the_master_is_away_is_sent_when_it_is_back() {
    let mut story = Story::begin();
    let client = story.client();
    story.ask(client, set("k"));
    story.ask(client, get("k"));
    let said = story.link(1, 0);
    assert_eq!(said[2..], [operation(1, 1, &set("k")), operation(1, 2, &get("k"))]);
    story.answer(1, 1, b"", vec![result(1, "k")]);
    assert_eq!(story.sent(), []);
    story.answer(1, 2, b"value", vec![]);
    assert_eq!(story.sent(), replies(client, b"value"));
}

#[test]
fn unanswered_operations_are_sent_again_with_their_numbers_and_answered_once() {
    let mut story = Story::linked();
    let client = story.client();
    for request in [set("a"), set("b"), get("a")] {
        story.ask(client, request);
    }
    story.answer(1, 1, b"", vec![]);
    story.lose_link();
    let said = story.link(1, 0);
    let again = [operation(1, 2, &set("b")), operation(1, 3, &get("a"))];
    assert_eq!(said, [vec![open(1, 1), Message::Ready(Ready {})], again.to_vec()].concat());
    story.answer(1, 2, b"", vec![]);
    story.answer(1, 3, b"va", vec![]);
    story.answer(1, 3, b"va", vec![]);
    assert_eq!(story.sent(), replies(client, b"va"));
}

#[test]
fn behind_a_request_with_a_reply_the_next_ones_are_held() {
    let mut story = Story::linked();
    let client = story.client();
    for request in [get("a"), Request::Ping { nonce: 1 }, set("b"), get("b")] {
        story.ask(client, request);
    }
    assert_eq!(story.said(), [open(1, 0), operation(1, 1, &get("a"))]);
    story.answer(1, 1, b"va", vec![]);
    assert_eq!(story.sent(), replies(client, b"va\x01\0\0\0"));
    assert_eq!(story.said(), [operation(1, 2, &set("b")), operation(1, 3, &get("b"))]);
}

#[test]
fn without_the_master_a_wait_for_keys_that_were_seen_is_answered_here() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, set("k"));
    story.answer(1, 1, b"", vec![result(1, "k")]);
    story.ask(client, wait("k"));
    assert_eq!(story.sent(), [], "the master is there and decides");
    story.lose_link();
    assert_eq!(story.sent(), replies(client, &[0]));
    story.ask(client, set("other"));
    story.ask(client, wait("k"));
    assert_eq!(story.sent(), replies(client, &[0]));
    story.ask(client, wait("other"));
    assert_eq!(story.sent(), []);
    // The first wait was sent before, so the master must hear that it is over.
    let said = story.link(2, 1);
    assert_eq!(said[2..], [operation(1, 2, &wait("k")), operation(1, 3, &Request::CancelWait)]);
    for (number, reply) in [(2, &[0]), (3, &[1])] {
        story.answer(1, number, reply, vec![]);
    }
    assert_eq!(story.sent(), []);
    assert_eq!(story.said(), [operation(1, 4, &set("other")), operation(1, 5, &wait("other"))]);
    story.answer(1, 5, &[0], vec![]);
    assert_eq!(story.sent(), replies(client, &[0]));
}

#[test]
fn a_deleted_key_is_not_seen_any_more() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, set("k"));
    story.answer(1, 1, b"", vec![result(1, "k")]);
    story.ask(client, Request::DeleteKey { key: key("k") });
    story.answer(1, 2, b"n", vec![KeyResult { value: None, ..result(2, "k") }]);
    story.sent();
    story.lose_link();
    story.ask(client, wait("k"));
    assert_eq!(story.sent(), []);
}

#[test]
fn a_wait_taken_back_is_confirmed_at_once_and_its_late_answer_dropped() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, wait("k"));
    story.ask(client, Request::CancelWait);
    assert_eq!(story.sent(), replies(client, &[1]));
    let said = story.said();
    assert_eq!(said[1..], [operation(1, 1, &wait("k")), operation(1, 2, &Request::CancelWait)]);
    story.answer(1, 1, &[0], vec![]);
    story.answer(1, 2, &[1], vec![]);
    assert_eq!(story.sent(), []);
}

#[test]
fn a_wait_answered_before_it_is_taken_back_gives_both_bytes() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, wait("k"));
    story.answer(1, 1, &[0], vec![]);
    story.said();
    story.ask(client, Request::CancelWait);
    assert_eq!(story.sent(), replies(client, &[0, 1]));
    assert_eq!(story.said(), [], "there is nothing to cancel");
}

#[test]
fn the_answer_to_a_cancel_also_ends_the_wait_before_it() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, wait("k"));
    story.ask(client, Request::CancelWait);
    story.answer(1, 2, &[1], vec![]);
    story.lose_link();
    assert_eq!(story.link(1, 0), [open(1, 2), Message::Ready(Ready {})]);
}

#[test]
fn the_answer_to_a_cancel_ends_nothing_else() {
    let mut story = Story::linked();
    let client = story.client();
    for request in [set("k"), wait("k"), Request::CancelWait] {
        story.ask(client, request);
    }
    story.answer(1, 2, &[0], vec![]);
    story.answer(1, 3, &[1], vec![]);
    story.lose_link();
    assert_eq!(story.link(1, 0)[2..], [operation(1, 1, &set("k"))]);
}

#[test]
fn a_wait_taken_back_before_it_was_sent_is_never_sent_but_a_barrier_counts() {
    let mut story = Story::begin();
    let (waiter, comer) = (story.client(), story.client());
    for (client, request) in [(waiter, wait("k")), (comer, barrier())] {
        story.ask(client, request);
        story.ask(client, Request::CancelWait);
        assert_eq!(story.sent(), replies(client, &[1]));
    }
    let said = story.link(1, 0);
    assert_eq!(said[3..], [operation(2, 1, &barrier()), operation(2, 2, &Request::CancelWait)]);
}

#[test]
fn results_are_told_to_the_next_master_until_they_are_durable() {
    let mut story = Story::linked();
    let client = story.client();
    for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
        story.ask(client, set(name));
        story.answer(1, number, b"", vec![result(number, name)]);
    }
    story.hear(to_sidecar::Message::Durable(Durable { seq: 1 })).unwrap();
    story.lose_link();
    let said = story.link(2, 2);
    assert_eq!(said, [Message::Kept(result(3, "c")), open(1, 3), Message::Ready(Ready {})]);
}

#[test]
fn an_older_master_is_left_alone() {
    let mut story = Story::begin();
    story.link(5, 0);
    story.lose_link();
    story.relay.link_opened();
    story.said();
    let fault = story.hear(to_sidecar::Message::Welcome(Welcome { generation: 4, durable_seq: 9 }));
    assert_eq!(fault, Err(LinkFault::OlderMaster { seen: Generation(5), found: Generation(4) }));
    assert_eq!(story.said(), []);
}

#[test]
fn only_a_refusal_of_the_pod_is_final() {
    let mut story = Story::linked();
    let refusal = |reason: &str| Refusal { reason: reason.to_owned(), detail: "as said".to_owned() };
    let mut refuse = |reason| story.hear(to_sidecar::Message::Refusal(refusal(reason))).unwrap_err();
    assert!(matches!(refuse("PodGone"), LinkFault::PodIsOut { .. }));
    assert!(matches!(refuse("NodeFenced"), LinkFault::PodIsOut { .. }));
    assert!(matches!(refuse("Superseded"), LinkFault::Refused { .. }));
}

#[test]
fn a_closed_client_is_told_to_the_master_behind_its_last_requests() {
    let mut story = Story::linked();
    let client = story.client();
    let add = Request::Add { key: key("n"), delta: 1 };
    story.ask(client, add.clone());
    story.ask(client, set("last"));
    story.said();
    story.relay.closed(client, &mut story.out);
    let close = Message::Close(CloseConnection { connection: 1 });
    assert_eq!(story.said(), [operation(1, 2, &set("last")), close.clone()]);
    // Neither was answered, so both are told again.
    story.lose_link();
    let said = story.link(1, 0);
    assert_eq!(said[2..], [operation(1, 1, &add), operation(1, 2, &set("last")), close]);
    story.answer(1, 1, b"n", vec![]);
    story.answer(1, 2, b"", vec![]);
    assert_eq!(story.sent(), []);
    story.lose_link();
    assert_eq!(story.link(1, 0), [Message::Ready(Ready {})]);
}

#[test]
fn a_client_that_died_while_it_waited_or_tried_leaves_nothing_behind() {
    let compare_set = Request::CompareSet { key: key("k"), expected: key("old"), desired: key("new") };
    for request in [wait("k"), get("k"), compare_set] {
        let mut story = Story::linked();
        let client = story.client();
        story.ask(client, request);
        story.lose_link();
        story.relay.closed(client, &mut story.out);
        let said = story.link(1, 0);
        let operations = said.iter().filter(|message| matches!(message, Message::Operation(_)));
        assert!(operations.clone().count() <= 1 && !said.contains(&operation(1, 1, &wait("k"))), "{said:?}");
        assert_eq!(story.sent(), []);
    }
}

#[test]
fn that_the_client_of_a_node_is_gone_is_told_until_a_master_knows_it() {
    let mut story = Story::linked();
    let client = story.client();
    story.hear(to_sidecar::Message::Named(Named { connection: 1, node: "n".to_owned(), clock: CLOCK })).unwrap();
    story.lose_link();
    story.relay.closed(client, &mut story.out);
    let announced = Message::Open(OpenConnection { connection: 1, node: "n".to_owned(), answered: 0, clock: CLOCK });
    let close = Message::Close(CloseConnection { connection: 1 });
    for generation in [2, 3] {
        assert_eq!(story.link(generation, 0), [announced.clone(), Message::Ready(Ready {}), close.clone()]);
        story.lose_link();
    }
    story.link(3, 0);
    story.hear(to_sidecar::Message::Close(CloseConnection { connection: 1 })).unwrap();
    story.lose_link();
    assert_eq!(story.link(3, 0), [Message::Ready(Ready {})]);
}

#[test]
fn the_masters_word_closes_a_client_for_good() {
    let mut story = Story::linked();
    let client = story.client();
    story.ask(client, get("a"));
    story.said();
    story.hear(to_sidecar::Message::Close(CloseConnection { connection: 1 })).unwrap();
    assert_eq!(story.out.take_closed().len(), 1);
    story.ask(client, get("b"));
    story.relay.closed(client, &mut story.out);
    assert_eq!(story.said(), []);
}

#[test]
fn a_client_that_sends_without_end_finds_no_room_and_others_do() {
    let mut story = Story::begin();
    let (greedy, modest) = (story.client(), story.client());
    let mut taken = 0;
    while story.relay.has_room(greedy) {
        story.ask(greedy, set("k"));
        taken += 1;
    }
    assert!((1000..1_000_000).contains(&taken), "{taken}");
    assert!(story.relay.has_room(modest));
    story.link(1, 0);
    story.answer(1, 1, b"", vec![]);
    assert!(story.relay.has_room(greedy));
}

#[test]
fn clients_that_come_and_go_while_the_master_is_away_take_bounded_memory() {
    let mut story = Story::begin();
    for _ in 0..MAX_LINGERING + 10 {
        let client = story.client();
        story.ask(client, set("k"));
        story.relay.closed(client, &mut story.out);
    }
    assert_eq!(story.relay.connections.len(), MAX_LINGERING);
    for _ in 0..10 {
        let client = story.client();
        story.relay.closed(client, &mut story.out);
    }
    assert_eq!(story.relay.connections.len(), MAX_LINGERING, "who asked for nothing leaves nothing");
}

#[test]
fn a_beat_is_only_for_a_master_that_listens() {
    let mut story = Story::begin();
    story.relay.beat();
    assert_eq!(story.said(), []);
    story.link(1, 0);
    story.relay.beat();
    assert_eq!(story.said(), [Message::Beat(Beat {})]);
}
