//! Tests two handlers that alternate on one state.

use super::*;

fn handlers() -> [Handler; 2] {
    ["b", "a"].map(|addr| Handler { node: NodeDesc { addr: addr.into(), pid: 1, local_id: 0 }, nodes: 2 })
}

fn at(seconds: i64) -> Stamp {
    Stamp::from_unix_micros(1_700_000_000_000_000 + seconds * 1_000_000).unwrap()
}

/// Runs a handler until it has nothing to write.
fn go_on(handler: &Handler, aim: Goal, state: &mut RendezvousState, now: Stamp) -> Action {
    loop {
        match handler.next(aim, state, now) {
            Action::Write(change) => handler.apply(change, state, now),
            other => return other,
        }
    }
}

#[test]
fn two_meet_and_meet_again() {
    let [first, second] = handlers();
    let mut state = RendezvousState::default();
    assert_eq!(go_on(&first, Goal::Join, &mut state, at(0)), Action::LookAgain);
    assert_eq!(go_on(&second, Goal::Join, &mut state, at(0)), Action::Finish);
    assert_eq!(go_on(&first, Goal::Join, &mut state, at(1)), Action::Finish);
    assert_eq!((first.rank(&state), second.rank(&state)), (Some(1), Some(0)), "ranks follow the names");

    assert_eq!(go_on(&first, Goal::Exit, &mut state, at(2)), Action::Finish);
    assert_eq!(go_on(&first, Goal::Join, &mut state, at(2)), Action::LookAgain);
    assert!(state.wait_list.contains(&first.node));
    assert_eq!(go_on(&second, Goal::Exit, &mut state, at(2)), Action::Finish);
    assert_eq!((state.round, state.complete), (1, false));
    assert_eq!(go_on(&second, Goal::Join, &mut state, at(3)), Action::LookAgain);
    assert_eq!(go_on(&first, Goal::Join, &mut state, at(3)), Action::Finish);
    assert_eq!((state.round, state.complete, state.wait_list.len()), (1, true, 0));
}

#[test]
fn a_heartbeat_is_written_every_five_seconds_and_the_silent_are_taken_out() {
    let [first, second] = handlers();
    let mut state = RendezvousState::default();
    go_on(&first, Goal::Join, &mut state, at(0));
    go_on(&second, Goal::Join, &mut state, at(0));
    assert_eq!(first.next(Goal::KeepAlive, &state, at(4)), Action::Finish);
    assert_eq!(first.next(Goal::KeepAlive, &state, at(5)), Action::Write(Change::KeepAlive));
    first.apply(Change::KeepAlive, &mut state, at(5));
    first.remove_expired(&mut state, at(15));
    assert_eq!(state.participants.len(), 2);
    first.remove_expired(&mut state, at(16));
    assert_eq!((state.participants.len(), second.rank(&state)), (1, None));
}

#[test]
fn a_surplus_node_becomes_a_spare_and_replaces_a_node_that_left() {
    let [first, second] = handlers();
    let third = Handler { node: NodeDesc { addr: "c".into(), pid: 1, local_id: 0 }, nodes: 2 };
    let mut state = RendezvousState::default();
    go_on(&first, Goal::Join, &mut state, at(0));
    go_on(&second, Goal::Join, &mut state, at(0));
    assert_eq!(go_on(&third, Goal::Join, &mut state, at(1)), Action::LookAgain);
    assert!(state.redundancy_list.contains(&third.node));
    go_on(&first, Goal::Exit, &mut state, at(2));
    assert_eq!(go_on(&third, Goal::Join, &mut state, at(2)), Action::LookAgain);
    assert!(state.wait_list.contains(&third.node) && state.redundancy_list.is_empty());
}
