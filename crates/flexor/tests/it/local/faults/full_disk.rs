//! Tests a full disk under the journal: clients wait, get the reason, and continue when there is room.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use flexor_model::env;
use flexor_testbed::skip;
use nix::sys::signal::Signal;

use super::deadline::eventually;
use super::master::{Master, Ports, master};
use super::node::Node;
use super::process::inside;
use super::store_client::StoreClient;
use super::worlds::Worlds;

const WORLD: &str = "2:2";

/// How many times the client counts; more than the rest of a page of the disk takes.
const COUNTS: i64 = 2000;

/// The client counts while the disk is full, and is held up by it; `make_room` ends that.
fn a_full_disk_holds_everybody_up(master: &Master, fill: impl FnOnce(), make_room: impl FnOnce()) {
    let worlds = Worlds::default();
    let nodes = Node::world([("a", master.ports.store), ("b", master.ports.store)], &worlds);
    let mut client = StoreClient::connect(master.ports.store).unwrap();
    assert_eq!(client.add("/n", 1).unwrap(), 1);
    fill();
    let counting = thread::spawn(move || {
        for count in 2..=COUNTS {
            assert_eq!(client.add("/n", 1).unwrap(), count);
        }
    });
    let reason = eventually("a master that is not ready", || match master.ready() {
        (503, reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("No space left on device") && reason.contains("free some space"), "{reason}");
    let output = master.status()["journal"].as_str().unwrap().to_owned();
    assert_eq!(output, reason.trim_end());
    assert!(!counting.is_finished(), "it is held up");
    make_room();
    eventually("a master that is ready", || (master.ready().0 == 200).then_some(()));
    counting.join().unwrap();
    assert_eq!(master.status()["journal"], "durable");
    nodes.iter().for_each(|node| assert_eq!(node.await_world(0, 2).round, 0, "no node was lost"));
}

#[test]
fn a_full_tmpfs_pauses_the_job_until_there_is_room() {
    if !nix::unistd::geteuid().is_root() {
        skip!("mounting a small disk needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    // The disk is in the master's own mount namespace, and disappears with it.
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh"]);
    let script = r#"mount -t tmpfs -o size=512k tmpfs "$0" && exec "$@" --state "$0""#;
    let master = Master::run(&mut inside(shell, script, folder.path(), &master(WORLD, Ports::free())));
    let root = Path::new("/proc").join(master.id().to_string()).join("root");
    let filler = root.join(folder.path().strip_prefix("/").unwrap()).join("filler");
    let fill = || {
        let error = fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    };
    a_full_disk_holds_everybody_up(&master, fill, || fs::remove_file(&filler).unwrap());
}

#[test]
fn a_disk_that_refuses_pauses_the_job_until_it_takes_again() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults.json");
    let mut command = master(WORLD, Ports::free());
    let master = Master::run(command.arg("--state").arg(folder.path().join("state")).env(env::FAULTS.name, &faults));
    let fill = || {
        fs::write(&faults, r#"{"write_error": "ENOSPC"}"#).unwrap();
        master.await_log("write_error: Some(NoSpace)");
    };
    a_full_disk_holds_everybody_up(&master, fill, || fs::remove_file(&faults).unwrap());
}

#[test]
fn a_master_killed_on_a_full_disk_has_acknowledged_nothing_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (state, faults) = (folder.path().join("state"), folder.path().join("faults.json"));
    let mut command = master(WORLD, Ports::free());
    let mut full = Master::run(command.arg("--state").arg(&state).env(env::FAULTS.name, &faults));
    let mut client = StoreClient::connect(full.ports.store).unwrap();
    fs::write(&faults, r#"{"write_error": "ENOSPC"}"#).unwrap();
    let mut total = 0;
    while full.ready().0 == 200 {
        // The one that finds the disk full is not answered.
        client.send(&flexor_store::codec::Request::Add { key: "/n".into(), delta: 1 }).unwrap();
        eventually("an answer, or a disk that is full", || {
            if client.has_answer() {
                total = client.read_number().unwrap();
                return Some(());
            }
            (full.ready().0 == 503).then_some(())
        });
    }
    full.end_with(Signal::SIGKILL);
    let next = Master::on(&state, WORLD);
    let mut client = StoreClient::connect(next.ports.store).unwrap();
    assert_eq!(client.add("/n", 0).unwrap(), total);
}

#[test]
fn a_master_that_starts_on_a_full_disk_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let (state, faults) = (folder.path().join("state"), folder.path().join("faults.json"));
    fs::write(&faults, r#"{"write_error": "ENOSPC"}"#).unwrap();
    let mut command = master(WORLD, Ports::free());
    command.arg("--state").arg(&state).env(env::FAULTS.name, &faults);
    // It prints nothing else before it serves, so the test reads its log from outside.
    let log = folder.path().join("log");
    let mut command = inside(Command::new("sh"), r#"exec "$@" 2> "$0""#, &log, &command);
    let output = || fs::read_to_string(&log).unwrap_or_default();
    let waits = "waits for room before it serves";
    let master = thread::scope(|scope| {
        scope.spawn(|| {
            eventually("a master that waits", || output().contains(waits).then_some(()));
            fs::remove_file(&faults).unwrap();
        });
        Master::run(&mut command)
    });
    assert_eq!(output().matches(waits).count(), 1, "{}", output());
    assert_eq!(master.ready().0, 200);
}
