//! Histories of one sidecar, message by message.

use bytes::Bytes;
use flexor_wire::master::v1::{
    CloseConnection, Durable, Named, NodeClock, OpenConnection, Operation, from_sidecar::Message,
};

use super::*;
use crate::codec::Reply;

const CLOCK: Option<NodeClock> = Some(NodeClock { naive: true, unix_us: 5 });

/// A relay; the test plays the master.
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

    /// Opens a link and welcomes the sidecar. Returns its messages after Hello.
    fn link(&mut self, generation: u64, durable_seq: u64) -> Vec<Message> {
        self.relay.link_opened();
        assert!(matches!(self.take_messages()[..], [Message::Hello(_)]));
        self.receive(to_sidecar::Message::Welcome(Welcome { generation, durable_seq })).unwrap();
        self.take_messages()
    }

    fn lose_link(&mut self) {
        self.relay.link_lost(&mut self.out);
        assert_eq!(self.take_messages(), []);
    }

    /// Opens a connection of a client, which sends VALIDATE.
    fn client(&mut self) -> ConnId {
        let conn = ConnId::fresh();
        self.request(conn, Request::Validate);
        conn
    }

    fn request(&mut self, conn: ConnId, request: Request) {
        self.relay.request(conn, request, &mut self.out);
    }

    fn receive(&mut self, message: to_sidecar::Message) -> Result<(), LinkFault> {
        self.relay.receive(ToSidecar { message: Some(message) }, &mut self.out)
    }

    fn answer(&mut self, connection: u64, number: u64, reply: &'static [u8], results: Vec<KeyResult>) {
        let answer = Answer { connection, number, reply: Bytes::from_static(reply), results };
        self.receive(to_sidecar::Message::Answer(answer)).unwrap();
    }

    fn take_messages(&mut self) -> Vec<Message> {
        self.relay.take_messages()
    }

    /// Takes the bytes that clients were sent.
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
fn hello_carries_the_pod_the_link_and_the_latest_generation() {
    let mut story = Story::linked();
    story.lose_link();
    story.relay.link_opened();
    let [Message::Hello(hello)] = &story.take_messages()[..] else { panic!("no Hello") };
    assert_eq!((hello.version, &*hello.pod, &*hello.pod_uid, hello.link), (1, "worker-0", "uid-0", 7));
    assert_eq!(hello.generation, 1);
}

#[test]
fn a_ping_is_answered_locally_and_validate_is_not_sent() {
    let mut story = Story::begin();
    let client = story.client();
    story.request(client, Request::Ping { nonce: 0x7e18 });
    assert_eq!(story.sent(), replies(client, &[0x18, 0x7e, 0, 0]));
    assert_eq!(story.link(1, 0), [open(1, 0), Message::Ready(Ready {})]);
}

#[test]
fn a_connection_without_requests_is_never_opened_at_the_master() {
    let mut story = Story::linked();
    story.relay.closed(ConnId::fresh(), &mut story.out);
    assert_eq!(story.take_messages(), []);
}

#[test]
fn requests_during_an_outage_are_sent_when_the_master_is_back() {
    let mut story = Story::begin();
    let client = story.client();
    story.request(client, set("k"));
    story.request(client, get("k"));
    let messages = story.link(1, 0);
    assert_eq!(messages[2..], [operation(1, 1, &set("k")), operation(1, 2, &get("k"))]);
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
        story.request(client, request);
    }
    story.answer(1, 1, b"", vec![]);
    story.lose_link();
    let messages = story.link(1, 0);
    let again = [operation(1, 2, &set("b")), operation(1, 3, &get("a"))];
    assert_eq!(messages, [vec![open(1, 1), Message::Ready(Ready {})], again.to_vec()].concat());
    story.answer(1, 2, b"", vec![]);
    story.answer(1, 3, b"va", vec![]);
    story.answer(1, 3, b"va", vec![]);
    assert_eq!(story.sent(), replies(client, b"va"));
}

#[test]
fn requests_after_one_with_a_reply_are_queued() {
    let mut story = Story::linked();
    let client = story.client();
    for request in [get("a"), Request::Ping { nonce: 1 }, set("b"), get("b")] {
        story.request(client, request);
    }
    assert_eq!(story.take_messages(), [open(1, 0), operation(1, 1, &get("a"))]);
    story.answer(1, 1, b"va", vec![]);
    assert_eq!(story.sent(), replies(client, b"va\x01\0\0\0"));
    assert_eq!(story.take_messages(), [operation(1, 2, &set("b")), operation(1, 3, &get("b"))]);
}

#[test]
fn without_the_master_a_wait_for_known_keys_is_answered_locally() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, set("k"));
    story.answer(1, 1, b"", vec![result(1, "k")]);
    story.request(client, wait("k"));
    assert_eq!(story.sent(), [], "the link is up, so the master answers");
    story.lose_link();
    assert_eq!(story.sent(), replies(client, &[0]));
    story.request(client, set("other"));
    story.request(client, wait("k"));
    assert_eq!(story.sent(), replies(client, &[0]));
    story.request(client, wait("other"));
    assert_eq!(story.sent(), []);
    // The first wait was sent before, so it is cancelled at the master.
    let messages = story.link(2, 1);
    assert_eq!(messages[2..], [operation(1, 2, &wait("k")), operation(1, 3, &Request::CancelWait)]);
    for (number, reply) in [(2, &[0]), (3, &[1])] {
        story.answer(1, number, reply, vec![]);
    }
    assert_eq!(story.sent(), []);
    assert_eq!(story.take_messages(), [operation(1, 4, &set("other")), operation(1, 5, &wait("other"))]);
    story.answer(1, 5, &[0], vec![]);
    assert_eq!(story.sent(), replies(client, &[0]));
}

#[test]
fn a_deleted_key_is_not_known_any_more() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, set("k"));
    story.answer(1, 1, b"", vec![result(1, "k")]);
    story.request(client, Request::DeleteKey { key: key("k") });
    story.answer(1, 2, b"n", vec![KeyResult { value: None, ..result(2, "k") }]);
    story.sent();
    story.lose_link();
    story.request(client, wait("k"));
    assert_eq!(story.sent(), []);
}

#[test]
fn a_cancelled_wait_is_confirmed_at_once_and_its_late_answer_dropped() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, wait("k"));
    story.request(client, Request::CancelWait);
    assert_eq!(story.sent(), replies(client, &[1]));
    let messages = story.take_messages();
    assert_eq!(messages[1..], [operation(1, 1, &wait("k")), operation(1, 2, &Request::CancelWait)]);
    story.answer(1, 1, &[0], vec![]);
    story.answer(1, 2, &[1], vec![]);
    assert_eq!(story.sent(), []);
}

#[test]
fn a_wait_answered_before_its_cancellation_gives_both_bytes() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, wait("k"));
    story.answer(1, 1, &[0], vec![]);
    story.take_messages();
    story.request(client, Request::CancelWait);
    assert_eq!(story.sent(), replies(client, &[0, 1]));
    assert_eq!(story.take_messages(), [], "there is nothing to cancel");
}

#[test]
fn the_answer_to_a_cancel_also_ends_the_wait_before_it() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, wait("k"));
    story.request(client, Request::CancelWait);
    story.answer(1, 2, &[1], vec![]);
    story.lose_link();
    assert_eq!(story.link(1, 0), [open(1, 2), Message::Ready(Ready {})]);
}

#[test]
fn the_answer_to_a_cancel_ends_nothing_else() {
    let mut story = Story::linked();
    let client = story.client();
    for request in [set("k"), wait("k"), Request::CancelWait] {
        story.request(client, request);
    }
    story.answer(1, 2, &[0], vec![]);
    story.answer(1, 3, &[1], vec![]);
    story.lose_link();
    assert_eq!(story.link(1, 0)[2..], [operation(1, 1, &set("k"))]);
}

#[test]
fn a_wait_cancelled_before_it_was_sent_is_never_sent_but_a_barrier_counts() {
    let mut story = Story::begin();
    let (waiter, comer) = (story.client(), story.client());
    for (client, request) in [(waiter, wait("k")), (comer, barrier())] {
        story.request(client, request);
        story.request(client, Request::CancelWait);
        assert_eq!(story.sent(), replies(client, &[1]));
    }
    let messages = story.link(1, 0);
    assert_eq!(messages[3..], [operation(2, 1, &barrier()), operation(2, 2, &Request::CancelWait)]);
}

#[test]
fn results_are_sent_to_the_next_master_until_they_are_durable() {
    let mut story = Story::linked();
    let client = story.client();
    for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
        story.request(client, set(name));
        story.answer(1, number, b"", vec![result(number, name)]);
    }
    story.receive(to_sidecar::Message::Durable(Durable { seq: 1 })).unwrap();
    story.lose_link();
    let messages = story.link(2, 2);
    assert_eq!(messages, [Message::Kept(result(3, "c")), open(1, 3), Message::Ready(Ready {})]);
}

#[test]
fn an_older_master_is_rejected() {
    let mut story = Story::begin();
    story.link(5, 0);
    story.lose_link();
    story.relay.link_opened();
    story.take_messages();
    let fault = story.receive(to_sidecar::Message::Welcome(Welcome { generation: 4, durable_seq: 9 }));
    assert_eq!(fault, Err(LinkFault::OlderMaster { seen: Generation(5), found: Generation(4) }));
    assert_eq!(story.take_messages(), []);
}

#[test]
fn only_a_refusal_of_the_pod_is_final() {
    let mut story = Story::linked();
    let refusal = |reason: &str| Refusal { reason: reason.to_owned(), detail: "as said".to_owned() };
    let mut refuse = |reason| story.receive(to_sidecar::Message::Refusal(refusal(reason))).unwrap_err();
    assert!(matches!(refuse("PodGone"), LinkFault::PodRejected { .. }));
    assert!(matches!(refuse("NodeFenced"), LinkFault::PodRejected { .. }));
    assert!(matches!(refuse("Superseded"), LinkFault::Refused { .. }));
}

#[test]
fn the_close_of_a_client_is_sent_after_its_last_requests() {
    let mut story = Story::linked();
    let client = story.client();
    let add = Request::Add { key: key("n"), delta: 1 };
    story.request(client, add.clone());
    story.request(client, set("last"));
    story.take_messages();
    story.relay.closed(client, &mut story.out);
    let close = Message::Close(CloseConnection { connection: 1 });
    assert_eq!(story.take_messages(), [operation(1, 2, &set("last")), close.clone()]);
    // Neither was answered, so both are sent again.
    story.lose_link();
    let messages = story.link(1, 0);
    assert_eq!(messages[2..], [operation(1, 1, &add), operation(1, 2, &set("last")), close]);
    story.answer(1, 1, b"n", vec![]);
    story.answer(1, 2, b"", vec![]);
    assert_eq!(story.sent(), []);
    story.lose_link();
    assert_eq!(story.link(1, 0), [Message::Ready(Ready {})]);
}

#[test]
fn waits_reads_and_compare_sets_of_a_closed_client_are_not_repeated() {
    let compare_set = Request::CompareSet { key: key("k"), expected: key("old"), desired: key("new") };
    for request in [wait("k"), get("k"), compare_set] {
        let mut story = Story::linked();
        let client = story.client();
        story.request(client, request);
        story.lose_link();
        story.relay.closed(client, &mut story.out);
        let messages = story.link(1, 0);
        let operations = messages.iter().filter(|message| matches!(message, Message::Operation(_)));
        assert!(operations.clone().count() <= 1 && !messages.contains(&operation(1, 1, &wait("k"))), "{messages:?}");
        assert_eq!(story.sent(), []);
    }
}

#[test]
fn the_close_of_a_node_is_repeated_until_a_master_confirms_it() {
    let mut story = Story::linked();
    let client = story.client();
    story.receive(to_sidecar::Message::Named(Named { connection: 1, node: "n".to_owned(), clock: CLOCK })).unwrap();
    story.lose_link();
    story.relay.closed(client, &mut story.out);
    let announced = Message::Open(OpenConnection { connection: 1, node: "n".to_owned(), answered: 0, clock: CLOCK });
    let close = Message::Close(CloseConnection { connection: 1 });
    for generation in [2, 3] {
        assert_eq!(story.link(generation, 0), [announced.clone(), Message::Ready(Ready {}), close.clone()]);
        story.lose_link();
    }
    story.link(3, 0);
    story.receive(to_sidecar::Message::Close(CloseConnection { connection: 1 })).unwrap();
    story.lose_link();
    assert_eq!(story.link(3, 0), [Message::Ready(Ready {})]);
}

#[test]
fn a_close_of_the_master_is_final() {
    let mut story = Story::linked();
    let client = story.client();
    story.request(client, get("a"));
    story.take_messages();
    story.receive(to_sidecar::Message::Close(CloseConnection { connection: 1 })).unwrap();
    assert_eq!(story.out.take_closed().len(), 1);
    story.request(client, get("b"));
    story.relay.closed(client, &mut story.out);
    assert_eq!(story.take_messages(), []);
}

#[test]
fn a_client_that_sends_too_much_is_paused_and_others_are_not() {
    let mut story = Story::begin();
    let (greedy, modest) = (story.client(), story.client());
    let mut taken = 0;
    while story.relay.has_room(greedy) {
        story.request(greedy, set("k"));
        taken += 1;
    }
    assert!((1000..1_000_000).contains(&taken), "{taken}");
    assert!(story.relay.has_room(modest));
    story.link(1, 0);
    story.answer(1, 1, b"", vec![]);
    assert!(story.relay.has_room(greedy));
}

#[test]
fn closed_clients_take_bounded_memory_during_an_outage() {
    let mut story = Story::begin();
    for _ in 0..MAX_LINGERING + 10 {
        let client = story.client();
        story.request(client, set("k"));
        story.relay.closed(client, &mut story.out);
    }
    assert_eq!(story.relay.connections.len(), MAX_LINGERING);
    for _ in 0..10 {
        let client = story.client();
        story.relay.closed(client, &mut story.out);
    }
    assert_eq!(story.relay.connections.len(), MAX_LINGERING, "a client without requests is forgotten");
}

#[test]
fn a_heartbeat_is_sent_only_while_the_link_is_up() {
    let mut story = Story::begin();
    story.relay.heartbeat();
    assert_eq!(story.take_messages(), []);
    story.link(1, 0);
    story.relay.heartbeat();
    assert_eq!(story.take_messages(), [Message::Heartbeat(Heartbeat {})]);
}

#[test]
fn with_a_prefix_the_clients_see_only_their_own_keys() {
    let mut story = Story::linked();
    story.relay.set_prefix(key("round.1/"));
    let conn = story.client();
    let list = Reply::Keys(vec![key("/other"), key("round.1/a"), key("round.1/b")]).into_bytes();
    let replies = [Reply::Number(2), Reply::Keys(vec![key("a"), key("b")])];
    for (number, (request, reply)) in (1..).zip([Request::GetNumKeys, Request::ListKeys].into_iter().zip(replies)) {
        story.request(conn, request);
        let asked = Operation { connection: 1, number, request: Request::ListKeys.to_bytes() };
        assert_eq!(story.take_messages().pop(), Some(Message::Operation(asked)));
        let answer = Answer { connection: 1, number, reply: list.clone(), results: Vec::new() };
        story.receive(to_sidecar::Message::Answer(answer)).unwrap();
        assert_eq!(story.sent(), [(conn, reply.into_bytes())]);
    }
    story.request(conn, get("a"));
    let asked = Operation { connection: 1, number: 3, request: get("round.1/a").to_bytes() };
    assert_eq!(story.take_messages(), [Message::Operation(asked)]);
}
