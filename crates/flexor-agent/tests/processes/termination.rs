//! Ending one program with its descendants, while the others run on.

use std::time::Duration;

use flexor_agent::processes::{ExitOutcome, Ladder, ProcessKey, Processes, Termination};
use nix::sys::signal::killpg;
use nix::unistd::Pid;

use crate::await_condition::{await_condition, is_alive};
use crate::notes::{Notes, no_processes};

const A: ProcessKey = ProcessKey(1);
const B: ProcessKey = ProcessKey(2);

/// Starts a process in a session of its own, one whose parent dies, and a daemon, to which both apply.
const FAMILY: &str = r#"
import os, signal, time
if "STUBBORN" in os.environ: signal.signal(signal.SIGTERM, signal.SIG_IGN)
def stay(name):
    with open(os.environ["NOTES"] + "/" + name, "w") as note: note.write(f"{os.getpid()}\n")
    time.sleep(600)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    stay("session")
if os.fork() == 0:
    if os.fork() == 0: stay("orphan")
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: stay("daemon")
    os._exit(0)
stay("program")
"#;

fn family(notes: &Notes) -> [i32; 4] {
    ["program", "session", "orphan", "daemon"].map(|name| notes.pid(name))
}

/// Starts two families and returns their process ids.
fn two_families(processes: &mut Processes) -> ([Notes; 2], [[i32; 4]; 2]) {
    let notes = [Notes::new(), Notes::new()];
    for (key, notes) in [A, B].into_iter().zip(&notes) {
        processes.start(key, notes.python(FAMILY)).unwrap();
    }
    let families = [family(&notes[0]), family(&notes[1])];
    (notes, families)
}

fn grace(millis: u64) -> Ladder {
    Ladder { grace: Duration::from_millis(millis), ..Ladder::default() }
}

fn killed(termination: &Termination) -> Vec<i32> {
    assert_eq!(termination.left, []);
    termination.killed.iter().map(|process| process.pid).collect()
}

#[tokio::test]
async fn one_family_ends_and_the_other_runs_on() {
    let mut processes = no_processes();
    let (_notes, [a, b]) = two_families(&mut processes);
    let termination = processes.end(A, grace(30_000)).await;
    assert_eq!(killed(&termination), Vec::<i32>::new());
    assert!(a.iter().all(|pid| !is_alive(*pid)), "{a:?}");
    assert!(b.iter().all(|pid| is_alive(*pid)), "{b:?}");
    let exit = processes.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (A, ExitOutcome::Signal(15)));
    assert_eq!(processes.running(), 1);
    processes.end_all(grace(30_000)).await;
    assert!(b.iter().all(|pid| !is_alive(*pid)), "{b:?}");
    assert_eq!(processes.next_exit().await.unwrap().key, B);
    assert_eq!(processes.next_exit().await, None);
}

#[tokio::test]
async fn a_stubborn_family_is_killed_and_no_other() {
    let mut processes = no_processes();
    let (notes, other) = (Notes::new(), Notes::new());
    processes.start(A, notes.sh(&format!("export STUBBORN=1; exec python3 -c '{FAMILY}'"))).unwrap();
    processes.start(B, other.python(FAMILY)).unwrap();
    let (mut stubborn, others) = (family(&notes), family(&other));
    let termination = processes.end(A, grace(200)).await;
    let mut killed = killed(&termination);
    killed.sort_unstable();
    stubborn.sort_unstable();
    assert_eq!(killed, stubborn);
    assert!(termination.took >= Duration::from_millis(200));
    assert!(stubborn.iter().all(|pid| !is_alive(*pid)));
    assert!(others.iter().all(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn descendants_of_an_ended_program_can_be_ended() {
    let mut processes = no_processes();
    let (notes, other) = (Notes::new(), Notes::new());
    let leaves = FAMILY.replace("stay(\"program\")", "");
    processes.start(A, notes.python(&leaves)).unwrap();
    processes.start(B, other.sh("echo $$ > $NOTES/program; exec sleep 600")).unwrap();
    let exit = processes.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (A, ExitOutcome::Code(0)));
    let left = ["session", "orphan", "daemon"].map(|name| notes.pid(name));
    assert!(left.iter().all(|pid| is_alive(*pid)));
    processes.end(A, grace(30_000)).await;
    assert!(left.iter().all(|pid| !is_alive(*pid)));
    assert!(is_alive(other.pid("program")));
}

#[tokio::test]
async fn a_program_that_keeps_forking_is_killed_beside_another() {
    // Ends by itself if the supervisor fails to kill it.
    let script = r#"
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 30
with open(os.environ["NOTES"] + "/ready", "w") as note: note.write("\n")
while time.monotonic() < until:
    if os.fork(): os._exit(0)
with open(os.environ["NOTES"] + "/escaped", "w") as note: note.write("\n")
"#;
    let mut processes = no_processes();
    let (notes, other) = (Notes::new(), Notes::new());
    let pid = processes.start(A, notes.python(script)).unwrap();
    processes.start(B, other.sh("echo $$ > $NOTES/program; exec sleep 600")).unwrap();
    notes.line("ready");
    let termination = processes.end(A, grace(200)).await;
    assert_eq!(termination.left, []);
    assert!((200..10_000).contains(&termination.took.as_millis()), "{termination:?}");
    // Those that have just died are in its process group until they are waited for.
    await_condition("the end of its group", || {
        processes.take_exit();
        killpg(Pid::from_raw(pid.try_into().unwrap()), None).err()
    });
    assert_eq!(notes.text("escaped"), None);
    assert!(is_alive(other.pid("program")));
}

#[tokio::test]
async fn a_program_may_be_started_again_when_it_has_ended() {
    let mut processes = no_processes();
    let notes = Notes::new();
    let first = processes.start(A, notes.sh("exec sleep 600")).unwrap();
    let refused = processes.start(A, notes.sh("exec sleep 600")).unwrap_err().to_string();
    assert_eq!(refused, format!("process {first} of program key 1 still runs; end it before it is started again"));
    processes.end(A, grace(30_000)).await;
    let second = processes.start(A, notes.sh("exit 3")).unwrap();
    let exits = [processes.next_exit().await.unwrap(), processes.next_exit().await.unwrap()];
    assert_eq!(
        exits.map(|exit| (exit.pid, exit.outcome)),
        [(first, ExitOutcome::Signal(15)), (second, ExitOutcome::Code(3))]
    );
}

#[tokio::test]
async fn two_groups_do_not_touch_each_other() {
    let (mut ours, mut theirs) = (no_processes(), no_processes());
    let (notes, other) = (Notes::new(), Notes::new());
    ours.start(A, notes.python(FAMILY)).unwrap();
    theirs.start(A, other.python(FAMILY)).unwrap();
    theirs.start(B, other.sh("exit 4")).unwrap();
    let (family_of_ours, family_of_theirs) = (family(&notes), family(&other));
    // The first to wait takes the exits of all; each set still gets its own.
    ours.end_all(grace(30_000)).await;
    assert!(family_of_ours.iter().all(|pid| !is_alive(*pid)));
    assert!(family_of_theirs.iter().all(|pid| is_alive(*pid)));
    let exit = theirs.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (B, ExitOutcome::Code(4)));
    assert_eq!(ours.next_exit().await.unwrap().outcome, ExitOutcome::Signal(15));
    assert_eq!(ours.next_exit().await, None);
    drop(ours);
    assert!(family_of_theirs.iter().all(|pid| is_alive(*pid)));
    drop(theirs);
    await_condition("the end of the family", || family_of_theirs.iter().all(|pid| !is_alive(*pid)).then_some(()));
}
