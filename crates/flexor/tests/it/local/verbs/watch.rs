//! Tests `-w`: changes appear row by row.

use nix::sys::signal::Signal;

use super::super::launch::launcher::Launcher;
use super::laptop::{Laptop, dlrover};

#[test]
fn a_watch_begins_with_one_table_of_existing_objects() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    for (words, column, rows) in
        [(&["get", "pods", "-o", "wide", "-w"][..], "READY", 3), (&["events", "-w"], "MESSAGE", 4)]
    {
        let watch = Launcher::start(&mut laptop.command(words));
        watch.await_stdout("\n", 1 + rows);
        let message = watch.stdout();
        let at = message.lines().next().unwrap().find(column).unwrap();
        for line in message.lines() {
            assert_eq!(&line[at - 3..at], "   ", "{message}");
            assert_ne!(&line[at..=at], " ", "{message}");
        }
        watch.signal(Signal::SIGINT);
        watch.wait_for(130);
    }
}

#[test]
fn a_watch_shows_that_a_pod_was_recreated() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let name = "torch-mnist-edljob-worker-1";
    let pods = Launcher::start(&mut laptop.command(&["get", "pods", name, "-w"]));
    let events = Launcher::start(&mut laptop.command(&["events", "-w"]));
    pods.await_stdout("Running", 1);
    events.await_stdout("PodWanted", 3);
    laptop.says(&["delete", "pod", name]);
    // The Terminating state may be over before the test can see it.
    pods.await_stdout("Running", 2);
    events.await_stdout("PodDeleted", 1);
    assert_eq!(pods.stdout().matches("NAME").count(), 1, "{}", pods.stdout());
    pods.signal(Signal::SIGINT);
    pods.wait_for(130);
    // A cluster that ends takes its watches with it.
    laptop.folder.let_go();
    laptop.run.wait_for(0);
    events.wait_for(0);
}
