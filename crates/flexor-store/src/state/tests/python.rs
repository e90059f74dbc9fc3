//! Exchanges states with Python: it loads what this crate writes, and this crate reads what Python writes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use super::*;

/// The lines that `tests/peer.py` answers to these lines; `None` without a Python.
fn peer(lines: &str) -> Option<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/state/tests/peer.py");
    let mut python = Command::new("python3")
        .arg(script)
        .arg("check")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = python.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // In its own thread, because Python answers before it has read everything. A Python that fails closes the pipe; its
        // own message, below, says why.
        scope.spawn(move || stdin.write_all(lines.as_bytes()).ok());
        python.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// Sends both encodings of each state to Python, with `note` after the value, and reads all answers.
fn exchange(states: &[RendezvousState], note: impl Fn(&RendezvousState) -> String) {
    let written = states.iter().flat_map(|state| [(state, encode(state)), (state, encode_in_two_pieces(state))]);
    let (sent, lines): (Vec<_>, String) = written
        .map(|(state, value)| (state, format!("{} {}\n", String::from_utf8(value).unwrap(), note(state))))
        .unzip();
    let Some(answers) = peer(&lines) else {
        println!("skipped: needs python3");
        return;
    };
    assert_eq!(answers.len(), sent.len());
    for (state, answer) in sent.into_iter().zip(answers) {
        let values: Vec<_> = answer.split(' ').collect();
        assert_eq!(values.len(), 4, "two protocols by two picklers");
        for value in values {
            assert_eq!(decode(value.as_bytes()).as_ref(), Ok(state));
        }
    }
}

#[test]
fn python_finds_every_attribute_as_we_wrote_it() {
    // Picklers write dicts in batches of 1000 and cut the pickle into frames of 64 KiB.
    let states: Vec<_> = [0, 1, 2, 16, 64, 300, 1000, 1001, 2500].map(known_state).into();
    exchange(&states, |state| state.round.to_string());
}

#[test]
fn python_loads_any_state_and_its_pickles_of_it_are_read() {
    let mut runner = TestRunner::deterministic();
    let strategy = properties::states();
    let states: Vec<_> = (0..100).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    exchange(&states, |_| String::new());
}
