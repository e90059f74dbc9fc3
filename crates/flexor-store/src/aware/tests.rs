//! The store as stock agents meet it: each test plays torch's own client, which decides from what it is shown.

mod agent;

use std::sync::Mutex;

use flexor_model::Round;

use super::*;
use crate::codec::Reply;
use agent::{Agent, Scene, Shown};

fn scene(min: u32, max: u32) -> Scene {
    Scene::new(Settings::new(min, max).expect("sizes"))
}

#[test]
fn agents_that_join_meet_without_polling() {
    let mut scene = scene(2, 3);
    let mut agents: Vec<Agent> = ["c", "a", "b"].map(|name| scene.agent(name)).into();
    for agent in &mut agents[..2] {
        agent.next_rendezvous(&mut scene);
        assert_eq!(agent.poll(&mut scene), Shown::Held, "the reply of a join is held");
    }
    agents[2].next_rendezvous(&mut scene);
    let worlds: Vec<_> = agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect();
    assert_eq!(worlds, [Shown::world(0, 2, 3), Shown::world(0, 0, 3), Shown::world(0, 1, 3)]);
}

#[test]
fn a_held_reply_goes_after_two_seconds_and_the_agent_still_waits() {
    let mut scene = scene(2, 3);
    let mut agent = scene.agent("a");
    agent.next_rendezvous(&mut scene);
    scene.pass(Duration::from_secs(2));
    assert_eq!(agent.poll(&mut scene), Shown::Waiting);
}

#[test]
fn a_closed_connection_takes_exactly_its_node_out() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    let lost = agents.remove(0);
    lost.disconnect(&mut scene);
    for agent in &mut agents {
        assert_eq!(agent.look(&mut scene), Shown::RestartWanted);
        agent.next_rendezvous(&mut scene);
    }
    let worlds: Vec<_> = agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect();
    assert_eq!(worlds, [Shown::world(1, 1, 2), Shown::world(1, 0, 2)], "b keeps its rank");
}

#[test]
fn a_silent_node_is_taken_out_and_told_to_stop_when_it_speaks_again() {
    let mut scene = scene(2, 3);
    let mut agents = scene.world(&["a", "b", "c"]);
    for _ in 0..11 {
        scene.pass(Duration::from_secs(1));
        agents[0].look(&mut scene);
        agents[1].look(&mut scene);
    }
    assert_eq!(agents[0].look(&mut scene), Shown::RestartWanted);
    let (survivors, asleep) = agents.split_at_mut(2);
    survivors.iter_mut().for_each(|agent| agent.next_rendezvous(&mut scene));
    assert_eq!(survivors[0].poll(&mut scene), Shown::world(1, 0, 2));

    let woken = &mut asleep[0];
    woken.keep_alive(&mut scene);
    assert_eq!(woken.look(&mut scene), Shown::RestartWanted, "it is in no world, and has workers to stop");
    assert_eq!(survivors[0].look(&mut scene), Shown::world(1, 0, 2), "what it says does not count");
    woken.next_rendezvous(&mut scene);
    assert_eq!(survivors[0].look(&mut scene), Shown::RestartWanted, "it joins as a newcomer");
}

#[test]
fn one_node_too_many_is_a_spare_and_is_used_without_asking() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut spare = scene.agent("s");
    spare.next_rendezvous(&mut scene);
    scene.pass(Duration::from_secs(2));
    assert_eq!(spare.poll(&mut scene), Shown::Redundant);
    assert_eq!(agents[0].look(&mut scene), Shown::world(0, 0, 2), "nobody is disturbed");

    let mut survivor = agents.remove(0);
    agents.remove(0).disconnect(&mut scene);
    survivor.next_rendezvous(&mut scene);
    assert_eq!(survivor.poll(&mut scene), Shown::world(1, 0, 2));
    assert_eq!(spare.look(&mut scene), Shown::world(1, 1, 2));
}

#[test]
fn heartbeats_are_shown_in_the_readers_own_time() {
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
        assert_eq!(agents[0].poll(&mut scene), Shown::world(round, 0, 2));
        agents[1].poll(&mut scene);
    }
    agents.iter_mut().for_each(|agent| agent.next_rendezvous(&mut scene));
    assert_eq!(agents.iter_mut().map(|agent| agent.poll(&mut scene)).collect::<Vec<_>>(), [Shown::Closed; 2]);
}

#[test]
fn a_stranger_cannot_close_a_run_it_was_never_in() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut stranger = scene.agent("s");
    stranger.close(&mut scene);
    assert_eq!(stranger.look(&mut scene), Shown::Closed, "for itself it is closed, so that it does not try for ever");
    assert_eq!(agents[0].look(&mut scene), Shown::world(0, 0, 2));
}

#[test]
fn those_in_the_exit_barrier_are_released_when_the_last_one_is_lost() {
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
fn a_peer_lost_in_the_exchange_of_ranks_blocks_nobody() {
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
    let key = run_key::state_key("job");
    let evil = Bytes::from_static(b"gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==");
    let expected = Bytes::from_static(crate::state::SENTINEL);
    let refused = scene.try_request(agent.conn, Request::CompareSet { key: key.clone(), expected, desired: evil });
    assert!(refused.unwrap_err().reason.contains("posix.system"));
    let refused = scene.try_request(agent.conn, Request::Set { key, value: Bytes::from_static(b"x") });
    assert!(refused.unwrap_err().reason.contains("compare-and-set"));
    assert_eq!(scene.store.machine("job").expect("the run is there").members().count(), 0);
}

#[test]
fn nobody_is_told_of_a_world_before_it_is_durable() {
    let journal = agent::SlowJournal::default();
    let mut scene = Scene::recording(Settings::new(1, 1).expect("sizes"), journal.clone());
    let mut agent = scene.agent("a");
    agent.next_rendezvous(&mut scene);
    assert_eq!(agent.poll(&mut scene), Shown::Held);
    journal.sync();
    scene.journal_advanced();
    assert_eq!(agent.poll(&mut scene), Shown::world(0, 0, 1));
}

#[test]
fn while_nothing_can_be_written_nobody_is_answered_and_then_everybody() {
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
fn a_store_is_built_again_from_its_facts() {
    let journal = agent::SlowJournal::default();
    journal.set_fast();
    let settings = Settings::new(2, 2).expect("sizes");
    let mut scene = Scene::recording(settings.clone(), journal.clone());
    let agents = scene.world(&["a", "b"]);
    scene.request(agents[0].conn, Request::Set { key: Bytes::from_static(b"/k"), value: Bytes::from_static(b"v") });

    let mut again = Scene::new(settings);
    for fact in journal.facts() {
        again.store.replay(fact);
    }
    again.store.resume(1 << 40, Duration::from_secs(1));
    assert_eq!(again.store.keyspace().get(b"/k"), Some(&Bytes::from_static(b"v")));
    let world = again.store.machine("job").and_then(|machine| machine.world()).expect("the world is known");
    assert_eq!((world.round, world.members.len()), (Round(0), 2));

    let conn = ConnId::fresh();
    let mut out = Outbox::default();
    let node = NamedNode { name: agents[1].node.to_string(), clock_is_naive: true, unix_us: 1_700_000_000_000_000 };
    again.store.opened_through_sidecar(conn, "pod-b".into(), Some(&node), Duration::from_secs(2), &mut out);
    again.request(conn, Request::Get { key: run_key::state_key("job") });
    let reply = again.take(conn);
    assert_eq!(agent::shown(&reply, &agents[1].node), Shown::world(0, 1, 2), "it goes on where it was");
    let shown = crate::state::decode(&reply[8..]).expect("a state");
    assert_eq!(shown.last_heartbeats[0].1.zone(), Zone::Unsaid, "its clock is told as it was");
}

#[test]
fn an_operation_that_a_sidecar_sends_again_is_done_once() {
    let mut scene = scene(1, 1);
    let conn = ConnId::fresh();
    let mut out = Outbox::default();
    scene.store.opened_through_sidecar(conn, "pod".into(), None, Duration::from_secs(1), &mut out);
    let add = || Request::Add { key: Bytes::from_static(b"/n"), delta: 1 };
    let origin = |number| Origin { link: 9, connection: 1, number, reply: Bytes::new() };
    for number in [1, 1, 2, 2] {
        scene.store.request_of_sidecar(conn, add(), origin(number), Duration::from_secs(2), &mut out).expect("served");
    }
    let sent: Vec<u8> = out.take_sent().into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(sent, [1i64, 1, 2, 2].map(i64::to_le_bytes).concat());

    let barrier = || Request::Barrier { key: Bytes::from_static(b"/b"), world_size: 2 };
    for number in [3, 3] {
        scene
            .store
            .request_of_sidecar(conn, barrier(), origin(number), Duration::from_secs(2), &mut out)
            .expect("served");
    }
    assert_eq!(out.take_sent(), [], "it counted once and waits");
    scene.request(ConnId::fresh(), barrier());
    let woken: Vec<_> = scene.out.take_sent().into_iter().filter(|(to, _)| *to == conn).collect();
    assert_eq!(woken.len(), 1);
}

#[test]
fn a_lost_sidecar_has_a_moment_and_a_gone_pod_has_none() {
    let mut scene = scene(1, 2);
    let mut agents = scene.world(&["a", "b"]);
    let conns = [agents[0].conn];
    let Scene { store, out, now, .. } = &mut scene;
    store.sidecar_lost(&conns, *now, out);
    assert_eq!(agents[1].look(&mut scene), Shown::world(0, 1, 2), "not yet");
    scene.pass(Duration::from_millis(1100));
    assert_eq!(agents[1].look(&mut scene), Shown::RestartWanted);

    let Scene { store, out, now, .. } = &mut scene;
    assert_eq!(store.node_gone("b", "deleted", *now, out), 1);
    assert_eq!(out.take_closed().len(), 1, "its connection is closed");
}

#[test]
fn a_plain_store_understands_nothing() {
    let store = AwareStore::new(Settings::new(1, 1).expect("sizes"), Box::new(NoRecorder), Box::new(|| 0)).plain();
    let store = Mutex::new(store);
    let mut store = store.lock().expect("not poisoned");
    let (conn, mut out) = (ConnId::fresh(), Outbox::default());
    let write = Request::CompareSet {
        key: run_key::state_key("job"),
        expected: Bytes::new(),
        desired: Bytes::from_static(b"anything"),
    };
    store.request(conn, write, Duration::ZERO, &mut out).expect("a plain store takes it");
    let mut expected = Outbox::default();
    expected.send(conn, Reply::Value(Bytes::from_static(b"anything")));
    assert_eq!(out.take_sent(), expected.take_sent());
}

#[test]
fn a_join_that_is_sent_again_after_its_round_completed_changes_nothing() {
    let mut scene = scene(1, 2);
    let (mut first, mut second) = (scene.agent("a"), scene.agent("b"));
    first.next_rendezvous(&mut scene);
    let sent_again = first.last_write.clone().expect("it has written");
    second.next_rendezvous(&mut scene);
    assert_eq!(first.poll(&mut scene), Shown::world(0, 0, 2));
    scene.request(first.conn, sent_again.clone());
    assert_eq!(first.poll(&mut scene), Shown::world(0, 0, 2), "it is told what came of it");

    // Also over a connection that the master has not heard of before.
    let fresh = scene.agent("x").conn;
    scene.request(fresh, sent_again);
    assert_eq!(agent::shown(&scene.take(fresh), &first.node), Shown::world(0, 0, 2));
    second.poll(&mut scene);
    assert_eq!(second.look(&mut scene), Shown::world(0, 1, 2), "nobody has to meet again");
}

#[test]
fn another_launcher_under_the_name_of_a_member_takes_its_place() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let mut successor = scene.agent("b");
    successor.next_rendezvous(&mut scene);
    assert_eq!(agents[0].look(&mut scene), Shown::RestartWanted);
    agents[0].next_rendezvous(&mut scene);
    assert_eq!(successor.poll(&mut scene), Shown::world(1, 1, 2));
    assert_eq!(scene.store.machine("job").expect("a run").program_failures(), 0);
}

#[test]
fn a_launcher_that_gives_up_is_a_lost_node_and_ends_nobody_elses_run() {
    let mut scene = scene(1, 2);
    let mut agents = scene.world(&["a", "b"]);
    agents[1].close(&mut scene);
    assert_eq!(agents[1].look(&mut scene), Shown::Closed, "for itself it is over");
    assert_eq!(agents[0].look(&mut scene), Shown::RestartWanted);
    agents[0].next_rendezvous(&mut scene);
    assert_eq!(agents[0].poll(&mut scene), Shown::world(1, 0, 1));
}

#[test]
fn who_ends_well_ends_the_run() {
    let mut scene = scene(1, 1);
    let mut agents = scene.world(&["a"]);
    let count = b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/num_members";
    scene.request(agents[0].conn, Request::Add { key: Bytes::from_static(count), delta: 1 });
    scene.take(agents[0].conn);
    agents[0].close(&mut scene);
    let closed = scene.store.machine("job").and_then(|machine| machine.closed().cloned());
    assert_eq!(closed.map(|cause| cause.reason), Some(Reason::ClosedByNode));
}

#[test]
fn the_exit_barrier_opens_also_when_only_the_waiting_is_known() {
    let mut scene = scene(2, 2);
    let mut agents = scene.world(&["a", "b"]);
    let count = Bytes::from_static(b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/num_members");
    let done = Bytes::from_static(b"/torch.rendezvous.job.0/torchelastic/agent/terminal_state/last_member");
    // The count was made at a master before this one: no agent of this one's acquaintance did it.
    scene.request(ConnId::fresh(), Request::Add { key: count, delta: 1 });
    scene.request(agents[0].conn, Request::Wait { keys: vec![done] });
    scene.take(agents[0].conn);
    agents.remove(1).disconnect(&mut scene);
    assert_eq!(scene.take(agents[0].conn), [0]);
}

#[test]
fn no_key_that_could_be_a_state_can_be_planted() {
    let mut scene = scene(1, 1);
    let conn = ConnId::fresh();
    let planted =
        |key: &'static [u8]| Request::Set { key: Bytes::from_static(key), value: Bytes::from_static(b"evil") };
    for key in [&b"/torch.rendezvous.job"[..], b"/torch.rendezvous.other", b"/torch.rendezvous.other.0/MASTER_ADDR"] {
        assert!(scene.try_request(conn, planted(key)).is_err(), "{key:?}");
    }
    scene.agent("a");
    scene.request(conn, planted(b"/torch.rendezvous.job.0/MASTER_ADDR"));
    assert!(scene.try_request(conn, planted(b"/torch.rendezvous.job")).is_err());
    let both = vec![Bytes::from_static(b"/torch.rendezvous.job"), Bytes::from_static(b"/k")];
    assert!(scene.try_request(conn, Request::MultiGet { keys: both }).is_err());
}
