//! The TCPStore front end of a job as torchrun's agents use it. Each test plays torch's own client, which decides from the
//! state that it reads.

mod agent;

use std::sync::Mutex;

use bytes::Bytes;
use flexor_store::codec::Reply;
use flexor_store::keyspace::{Change, Mutation};
use flexor_store::state::Zone;

use super::*;
use agent::{Agent, Reading, Scene};

fn scene(min: u32, max: u32) -> Scene {
    Scene::new(Settings::new(min, max).expect("sizes"))
}

#[test]
fn agents_that_join_get_their_world_without_polling() {
    let mut scene = scene(2, 3);
    let mut agents: Vec<Agent> = ["c", "a", "b"].map(|name| scene.agent(name)).into();
    for agent in &mut agents[..2] {
        agent.next_rendezvous(&mut scene);
        assert_eq!(agent.poll(&mut scene), Reading::Held, "the reply of a join is held");
    }
    agents[2].next_rendezvous(&mut scene);
    let worlds: Vec<_> = agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect();
    assert_eq!(worlds, [Reading::world(0, 2, 3), Reading::world(0, 0, 3), Reading::world(0, 1, 3)]);
}

#[test]
fn a_held_reply_is_sent_after_two_seconds_and_the_agent_still_waits() {
    let mut scene = scene(2, 3);
    let mut agent = scene.agent("a");
    agent.next_rendezvous(&mut scene);
    scene.pass(Duration::from_secs(2));
    assert_eq!(agent.poll(&mut scene), Reading::Waiting);
}

#[test]
fn a_closed_connection_drops_exactly_its_node() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    let lost = agents.remove(0);
    lost.disconnect(&mut scene);
    for agent in &mut agents {
        assert_eq!(agent.look(&mut scene), Reading::RestartWanted);
        agent.next_rendezvous(&mut scene);
    }
    let worlds: Vec<_> = agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect();
    assert_eq!(worlds, [Reading::world(1, 1, 2), Reading::world(1, 0, 2)], "b keeps its rank");
}

#[test]
fn a_silent_node_is_dropped_and_restarts_when_it_reads_again() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    for _ in 0..11 {
        scene.pass(Duration::from_secs(1));
        agents[0].look(&mut scene);
        agents[1].look(&mut scene);
    }
    assert_eq!(agents[0].look(&mut scene), Reading::RestartWanted);
    let (survivors, asleep) = agents.split_at_mut(2);
    survivors.iter_mut().for_each(|agent| agent.next_rendezvous(&mut scene));
    assert_eq!(survivors[0].poll(&mut scene), Reading::world(1, 0, 2));

    let woken = &mut asleep[0];
    woken.keep_alive(&mut scene);
    assert_eq!(woken.look(&mut scene), Reading::RestartWanted, "it is in no world and has to stop its workers");
    assert_eq!(survivors[0].look(&mut scene), Reading::world(1, 0, 2), "its heartbeat has no effect");
    woken.next_rendezvous(&mut scene);
    assert_eq!(survivors[0].look(&mut scene), Reading::RestartWanted, "it joins as a newcomer");
}

#[test]
fn a_surplus_node_is_a_standby_and_replaces_a_lost_one() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut standby = scene.agent("s");
    standby.next_rendezvous(&mut scene);
    scene.pass(Duration::from_secs(2));
    assert_eq!(standby.poll(&mut scene), Reading::Redundant);
    assert_eq!(agents[0].look(&mut scene), Reading::world(0, 0, 2), "a standby causes no restart");

    let mut survivor = agents.remove(0);
    agents.remove(0).disconnect(&mut scene);
    survivor.next_rendezvous(&mut scene);
    assert_eq!(survivor.poll(&mut scene), Reading::world(1, 0, 2));
    assert_eq!(standby.look(&mut scene), Reading::world(1, 1, 2));
}

#[test]
fn a_heartbeat_has_the_time_of_the_readers_own_clock() {
    let mut scene = scene(1, 1);
    let mut late = scene.agent("late");
    late.clock_ahead = -3_600_000_000;
    late.next_rendezvous(&mut scene);
    late.poll(&mut scene);
    scene.pass(Duration::from_secs(2));
    late.look(&mut scene);
    assert!(late.own_heartbeat_age() < Duration::from_secs(1), "{:?}", late.own_heartbeat_age());

    scene.wall_clock_leaps(-7_200_000_000);
    late.look(&mut scene);
    assert!(
        late.own_heartbeat_age() < Duration::from_secs(1),
        "our clock was set back: {:?}",
        late.own_heartbeat_age()
    );
}

#[test]
fn a_program_that_keeps_failing_closes_the_run_for_all() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    for round in 1..=3 {
        agents.iter_mut().for_each(|agent| agent.next_rendezvous(&mut scene));
        assert_eq!(agents[0].poll(&mut scene), Reading::world(round, 0, 2));
        agents[1].poll(&mut scene);
    }
    agents.iter_mut().for_each(|agent| agent.next_rendezvous(&mut scene));
    assert_eq!(agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect::<Vec<_>>(), [Reading::Closed; 2]);
}

#[test]
fn an_agent_that_never_joined_cannot_close_the_run() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut stranger = scene.agent("s");
    stranger.close(&mut scene);
    assert_eq!(stranger.look(&mut scene), Reading::Closed, "it alone sees a closed run, so that it ends");
    assert_eq!(agents[0].look(&mut scene), Reading::world(0, 0, 2));
}

#[test]
fn agents_at_the_exit_barrier_are_released_when_the_last_peer_is_lost() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    let count = b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/num_members";
    let done = b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/last_member";
    let lost = agents.remove(2);
    for agent in &agents {
        scene.request(agent.conn, Request::Add { key: Bytes::from_static(count), delta: 1 });
        scene.request(agent.conn, Request::Wait { keys: vec![Bytes::from_static(done)] });
    }
    scene.take(agents[0].conn);
    lost.disconnect(&mut scene);
    assert_eq!(scene.take(agents[0].conn), [0], "the wait is over");
}

#[test]
fn a_peer_lost_in_the_exchange_of_ranks_blocks_no_agent() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    let missing: Vec<Bytes> =
        ["MASTER_ADDR", "MASTER_PORT", "torchelastic/role_info/0", "torchelastic/assigned_ranks/1"]
            .map(|name| Bytes::from(format!("/torch.rendezvous.job.0/{name}")))
            .into();
    scene.request(agents[1].conn, Request::Wait { keys: missing });
    agents.remove(0).disconnect(&mut scene);
    assert_eq!(scene.take(agents[0].conn), [0]);
}

#[test]
fn a_pickle_of_anything_else_is_refused_and_changes_nothing() {
    let mut scene = scene(1, 1);
    let agent = scene.agent("a");
    let key = agent::state_key("job");
    let evil = Bytes::from_static(b"gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==");
    let expected = Bytes::from_static(flexor_store::state::SENTINEL);
    let refused = scene.try_request(agent.conn, Request::CompareSet { key: key.clone(), expected, desired: evil });
    assert!(refused.unwrap_err().reason.contains("posix.system"));
    let refused = scene.try_request(agent.conn, Request::Set { key, value: Bytes::from_static(b"x") });
    assert!(refused.unwrap_err().reason.contains("compare-and-set"));
    assert_eq!(scene.state.rendezvous("job").expect("the run is there").members().count(), 0);
}

#[test]
fn a_world_is_not_published_before_it_is_durable() {
    let journal = agent::SlowJournal::default();
    let mut scene = Scene::recording(Settings::new(1, 1).expect("sizes"), journal.clone());
    let mut agent = scene.agent("a");
    agent.next_rendezvous(&mut scene);
    assert_eq!(agent.poll(&mut scene), Reading::Held);
    journal.sync();
    scene.journal_advanced();
    assert_eq!(agent.poll(&mut scene), Reading::world(0, 0, 1));
}

#[test]
fn replies_are_withheld_while_the_journal_takes_nothing() {
    let journal = agent::SlowJournal::default();
    let mut scene = Scene::recording(Settings::new(1, 1).expect("sizes"), journal.clone());
    let agent = scene.agent("a");
    scene.take(agent.conn);
    journal.set_full(true);
    let add = || Request::Add { key: Bytes::from_static(b"/n"), delta: 1 };
    scene.request(agent.conn, add());
    scene.request(agent.conn, Request::Ping { nonce: 7 });
    assert_eq!(scene.take(agent.conn), [0u8; 0]);
    journal.set_full(false);
    journal.sync();
    scene.journal_advanced();
    assert_eq!(scene.take(agent.conn), [&1i64.to_le_bytes()[..], &7u32.to_le_bytes()].concat());
}

#[test]
fn the_state_is_rebuilt_from_its_facts() {
    let journal = agent::SlowJournal::default();
    journal.set_fast();
    let settings = Settings::new(2, 2).expect("sizes");
    let mut scene = Scene::recording(settings.clone(), journal.clone());
    let agents = scene.world(&["a", "b"]);
    scene.request(agents[0].conn, Request::Set { key: Bytes::from_static(b"/k"), value: Bytes::from_static(b"v") });

    let mut again = Scene::new(settings);
    for fact in journal.facts() {
        again.state.replay(fact);
    }
    again.state.resume(1 << 40, Duration::from_secs(1));
    assert_eq!(again.state.keyspace().get(b"/k"), Some(&Bytes::from_static(b"v")));
    let world = again.state.rendezvous("job").and_then(|machine| machine.world()).expect("the world is known");
    assert_eq!((world.round, world.members.len()), (Round(0), 2));

    let conn = ConnId::fresh();
    let mut out = Outbox::default();
    let node = NamedNode { name: agents[1].node.to_string(), clock_is_naive: true, unix_us: 1_700_000_000_000_000 };
    again.state.opened_through_sidecar(conn, "pod-b".into(), Some(&node), Duration::from_secs(2), &mut out);
    again.request(conn, Request::Get { key: agent::state_key("job") });
    let reply = again.take(conn);
    assert_eq!(agent::read_state(&reply, &agents[1].node), Reading::world(0, 1, 2), "the node is still in its world");
    let shown = flexor_store::state::decode(&reply[8..]).expect("a state");
    assert_eq!(shown.last_heartbeats[0].1.zone(), Zone::Unsaid, "its timestamps keep their format");
}

#[test]
fn a_repeated_operation_of_a_sidecar_is_carried_out_once() {
    let mut scene = scene(1, 1);
    let conn = ConnId::fresh();
    let mut out = Outbox::default();
    scene.state.opened_through_sidecar(conn, "pod".into(), None, Duration::from_secs(1), &mut out);
    let add = || Request::Add { key: Bytes::from_static(b"/n"), delta: 1 };
    let origin = |number| OperationRecord { link: 9, connection: 1, number, reply: Bytes::new() };
    for number in [1, 1, 2, 2] {
        scene.state.request_of_sidecar(conn, add(), origin(number), Duration::from_secs(2), &mut out).expect("served");
    }
    let sent: Vec<u8> = out.take_sent().into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(sent, [1i64, 1, 2, 2].map(i64::to_le_bytes).concat());

    let barrier = || Request::Barrier { key: Bytes::from_static(b"/b"), world_size: 2 };
    for number in [3, 3] {
        scene
            .state
            .request_of_sidecar(conn, barrier(), origin(number), Duration::from_secs(2), &mut out)
            .expect("served");
    }
    assert_eq!(out.take_sent(), [], "it is counted once and waits");
    scene.request(ConnId::fresh(), barrier());
    let woken: Vec<_> = scene.out.take_sent().into_iter().filter(|(to, _)| *to == conn).collect();
    assert_eq!(woken.len(), 1);
}

#[test]
fn a_lost_sidecar_has_a_grace_and_a_deleted_pod_has_none() {
    let mut scene = scene(1, 2);
    let mut agents = scene.world(&["a", "b"]);
    let conns = [agents[0].conn];
    let Scene { state, out, now, .. } = &mut scene;
    state.sidecar_lost(&conns, *now, out);
    assert_eq!(agents[1].look(&mut scene), Reading::world(0, 1, 2), "not yet");
    scene.pass(Duration::from_millis(1100));
    assert_eq!(agents[1].look(&mut scene), Reading::RestartWanted);

    let Scene { state, out, now, .. } = &mut scene;
    assert_eq!(state.drop_node("b", "deleted", *now, out), 1);
    assert_eq!(out.take_closed().len(), 1, "its connection is closed");
}

#[test]
fn a_plain_store_interprets_no_keys() {
    let store = JobState::new(Settings::new(1, 1).expect("sizes"), Box::new(|| 0)).with_plain_store();
    let store = Mutex::new(store);
    let mut store = store.lock().expect("not poisoned");
    let (conn, mut out) = (ConnId::fresh(), Outbox::default());
    let write = Request::CompareSet {
        key: agent::state_key("job"),
        expected: Bytes::new(),
        desired: Bytes::from_static(b"anything"),
    };
    store.request(conn, write, Duration::ZERO, &mut out).expect("a plain store takes it");
    let mut expected = Outbox::default();
    expected.send(conn, Reply::Value(Bytes::from_static(b"anything")));
    assert_eq!(out.take_sent(), expected.take_sent());
}

#[test]
fn a_repeated_join_after_its_round_completed_changes_nothing() {
    let mut scene = scene(1, 2);
    let (mut first, mut second) = (scene.agent("a"), scene.agent("b"));
    first.next_rendezvous(&mut scene);
    let sent_again = first.last_write.clone().expect("it has written");
    second.next_rendezvous(&mut scene);
    assert_eq!(first.poll(&mut scene), Reading::world(0, 0, 2));
    scene.request(first.conn, sent_again.clone());
    assert_eq!(first.poll(&mut scene), Reading::world(0, 0, 2), "it gets its world");

    // The same holds over a connection that is new to the master.
    let fresh = scene.agent("x").conn;
    scene.request(fresh, sent_again);
    assert_eq!(agent::read_state(&scene.take(fresh), &first.node), Reading::world(0, 0, 2));
    second.poll(&mut scene);
    assert_eq!(second.look(&mut scene), Reading::world(0, 1, 2), "no restart is wanted");
}

#[test]
fn another_launcher_with_the_name_of_a_member_replaces_it() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut successor = scene.agent("b");
    successor.next_rendezvous(&mut scene);
    assert_eq!(agents[0].look(&mut scene), Reading::RestartWanted);
    agents[0].next_rendezvous(&mut scene);
    assert_eq!(successor.poll(&mut scene), Reading::world(1, 1, 2));
    assert_eq!(scene.state.rendezvous("job").expect("a run").program_failures(), 0);
}

#[test]
fn a_launcher_that_gives_up_is_a_lost_node_and_does_not_close_the_run() {
    let mut scene = scene(1, 2);
    let mut agents = scene.world(&["a", "b"]);
    agents[1].close(&mut scene);
    assert_eq!(agents[1].look(&mut scene), Reading::Closed, "it alone sees a closed run");
    assert_eq!(agents[0].look(&mut scene), Reading::RestartWanted);
    agents[0].next_rendezvous(&mut scene);
    assert_eq!(agents[0].poll(&mut scene), Reading::world(1, 0, 1));
}

#[test]
fn an_agent_that_ends_successfully_closes_the_run() {
    let mut scene = scene(1, 1);
    let mut agents = scene.world(&["a"]);
    let count = b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/num_members";
    scene.request(agents[0].conn, Request::Add { key: Bytes::from_static(count), delta: 1 });
    scene.take(agents[0].conn);
    agents[0].close(&mut scene);
    let closed = scene.state.rendezvous("job").and_then(|machine| machine.closed().cloned());
    assert_eq!(closed.map(|cause| cause.reason), Some(Reason::ClosedByNode));
}

#[test]
fn the_exit_barrier_opens_for_agents_that_were_counted_by_an_earlier_master() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let count = Bytes::from_static(b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/num_members");
    let done = Bytes::from_static(b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/last_member");
    // An earlier master took the count, so this one knows none of the agents that made it.
    scene.request(ConnId::fresh(), Request::Add { key: count, delta: 1 });
    scene.request(agents[0].conn, Request::Wait { keys: vec![done] });
    scene.take(agents[0].conn);
    agents.remove(1).disconnect(&mut scene);
    assert_eq!(scene.take(agents[0].conn), [0]);
}

fn value(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn encoded(reply: Reply) -> Vec<u8> {
    reply.into_bytes().into()
}

#[test]
fn keys_that_look_like_those_of_a_rendezvous_belong_to_programs() {
    let mut scene = scene(1, 1);
    let conn = ConnId::fresh();
    scene.world(&["a"]);
    let keys = ["/torch.rendezvous.other", "/torch.rendezvous.job.0/workers//key", "/torch.rendezvous.other.0/key"];
    for key in keys {
        let swap = |expected, desired| Request::CompareSet { key: value(key), expected, desired };
        scene.request(conn, swap(Bytes::new(), value("no pickle")));
        assert_eq!(scene.take(conn), encoded(Reply::Value(value("no pickle"))), "{key}");
        scene.request(conn, swap(value("no pickle"), value("*")));
        assert_eq!(scene.take(conn), encoded(Reply::Value(value("*"))), "{key}");
        scene.request(conn, Request::Append { key: value(key), value: value("+") });
        scene.request(conn, Request::MultiGet { keys: vec![value(key), value("/none")] });
        assert_eq!(scene.take(conn), encoded(Reply::Values(vec![value("*+"), Bytes::new()])), "{key}");
        scene.request(conn, Request::DeleteKey { key: value(key) });
        assert_eq!(scene.take(conn), encoded(Reply::Number(1)), "{key}");
    }
    assert!(scene.state.rendezvous("other").is_none(), "no run began");
}

#[test]
fn a_key_of_a_round_never_begins_a_run() {
    let mut scene = scene(1, 1);
    let agents = scene.world(&["a"]);
    let (conn, key) = (ConnId::fresh(), value("/torch.rendezvous.job.0/workers//key"));
    let desired = Bytes::from_static(flexor_store::state::SENTINEL);
    for expected in [Bytes::new(), desired.clone()] {
        let swap = Request::CompareSet { key: key.clone(), expected, desired: desired.clone() };
        scene.request(conn, swap);
        assert_eq!(scene.take(conn), encoded(Reply::Value(desired.clone())));
    }
    let mutation = Mutation { seq: 1, key, change: Change::Set(desired) };
    scene.state.replay(StoreFact::Key(mutation));
    assert!(scene.state.rendezvous("job.0/workers//key").is_none(), "not after a replay either");
    assert_eq!(agents.len(), 1);
}

#[test]
fn a_run_begins_whatever_a_program_has_written_to_its_key() {
    let mut scene = scene(1, 1);
    let conn = ConnId::fresh();
    scene.request(conn, Request::Set { key: agent::state_key("job"), value: value("planted") });
    scene.world(&["a"]);
    let planted = Request::Set { key: agent::state_key("job"), value: value("planted") };
    assert!(scene.try_request(conn, planted).is_err(), "from then on only agents write it");
    let both = vec![agent::state_key("job"), value("/k")];
    assert!(scene.try_request(conn, Request::MultiGet { keys: both }).is_err());
}

#[test]
fn a_repeated_compare_and_set_of_a_program_is_carried_out_once() {
    let mut scene = scene(1, 1);
    scene.world(&["a"]);
    let (conn, key) = (ConnId::fresh(), value("/torch.rendezvous.job.0/workers//lock"));
    let Scene { state, out, now, .. } = &mut scene;
    state.opened_through_sidecar(conn, "pod".into(), None, *now, out);
    out.take_sent();
    for _ in 0..2 {
        let swap = Request::CompareSet { key: key.clone(), expected: Bytes::new(), desired: value("mine") };
        let origin = OperationRecord { link: 9, connection: 1, number: 1, reply: Bytes::new() };
        state.request_of_sidecar(conn, swap, origin, *now, out).expect("served");
        // Between the two another client gives the lock back. A second execution would take it again.
        state.request(ConnId::fresh(), Request::DeleteKey { key: key.clone() }, *now, out).expect("served");
    }
    let replies: Vec<u8> = out.take_sent().into_iter().filter(|(to, _)| *to == conn).flat_map(|(_, b)| b).collect();
    assert_eq!(replies, encoded(Reply::Value(value("mine"))).repeat(2));
    state.request(conn, Request::Check { keys: vec![key] }, *now, out).expect("served");
    let present: Vec<u8> = out.take_sent().into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(present, encoded(Reply::Present(false)));
}
