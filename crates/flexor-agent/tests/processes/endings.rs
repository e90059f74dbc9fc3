//! One program is ended, with all that it has started, and the others do not notice.

use std::time::Duration;

use flexor_agent::processes::{Ending, Ladder, Outcome, ProcessKey, Processes};
use nix::sys::signal::killpg;
use nix::unistd::Pid;

use crate::notes::{Notes, nobody};
use crate::waiting::{await_condition, lives};

const A: ProcessKey = ProcessKey(1);
const B: ProcessKey = ProcessKey(2);

/// Starts a process in a session of its own, one whose parent dies, and a daemon, for which both is true.
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

/// Two such families, and who is in them.
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

fn killed(ending: &Ending) -> Vec<i32> {
    assert_eq!(ending.left, []);
    ending.killed.iter().map(|process| process.pid).collect()
}

#[tokio::test]
async fn one_family_ends_and_the_other_lives() {
    let mut processes = nobody();
    let (_notes, [a, b]) = two_families(&mut processes);
    let ending = processes.end(A, grace(30_000)).await;
    assert_eq!(killed(&ending), Vec::<i32>::new());
    assert!(a.iter().all(|pid| !lives(*pid)), "{a:?}");
    assert!(b.iter().all(|pid| lives(*pid)), "{b:?}");
    let exit = processes.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (A, Outcome::Signal(15)));
    assert_eq!(processes.running(), 1);
    processes.end_all(grace(30_000)).await;
    assert!(b.iter().all(|pid| !lives(*pid)), "{b:?}");
    assert_eq!(processes.next_exit().await.unwrap().key, B);
    assert_eq!(processes.next_exit().await, None);
}

#[tokio::test]
async fn a_stubborn_family_is_killed_and_no_other() {
    let mut processes = nobody();
    let (notes, other) = (Notes::new(), Notes::new());
    processes.start(A, notes.sh(&format!("export STUBBORN=1; exec python3 -c '{FAMILY}'"))).unwrap();
    processes.start(B, other.python(FAMILY)).unwrap();
    let (mut stubborn, others) = (family(&notes), family(&other));
    let ending = processes.end(A, grace(200)).await;
    let mut killed = killed(&ending);
    killed.sort_unstable();
    stubborn.sort_unstable();
    assert_eq!(killed, stubborn);
    assert!(ending.took >= Duration::from_millis(200));
    assert!(stubborn.iter().all(|pid| !lives(*pid)));
    assert!(others.iter().all(|pid| lives(*pid)));
}

#[tokio::test]
async fn what_a_program_leaves_behind_can_be_ended_after_it() {
    let mut processes = nobody();
    let (notes, other) = (Notes::new(), Notes::new());
    let leaves = FAMILY.replace("stay(\"program\")", "");
    processes.start(A, notes.python(&leaves)).unwrap();
    processes.start(B, other.sh("echo $$ > $NOTES/program; exec sleep 600")).unwrap();
    let exit = processes.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (A, Outcome::Code(0)));
    let left = ["session", "orphan", "daemon"].map(|name| notes.pid(name));
    assert!(left.iter().all(|pid| lives(*pid)));
    processes.end(A, grace(30_000)).await;
    assert!(left.iter().all(|pid| !lives(*pid)));
    assert!(lives(other.pid("program")));
}

#[tokio::test]
async fn a_program_that_keeps_forking_away_is_caught_beside_another() {
    // Ends by itself, should nobody catch it.
    let script = r#"
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 30
with open(os.environ["NOTES"] + "/ready", "w") as note: note.write("\n")
while time.monotonic() < until:
    if os.fork(): os._exit(0)
with open(os.environ["NOTES"] + "/escaped", "w") as note: note.write("\n")
"#;
    let mut processes = nobody();
    let (notes, other) = (Notes::new(), Notes::new());
    let pid = processes.start(A, notes.python(script)).unwrap();
    processes.start(B, other.sh("echo $$ > $NOTES/program; exec sleep 600")).unwrap();
    notes.line("ready");
    let ending = processes.end(A, grace(200)).await;
    assert_eq!(ending.left, []);
    assert!((200..10_000).contains(&ending.took.as_millis()), "{ending:?}");
    // Those that have just died are in its process group until they are waited for.
    await_condition("the end of its group", || {
        processes.take_exit();
        killpg(Pid::from_raw(pid.try_into().unwrap()), None).err()
    });
    assert_eq!(notes.text("escaped"), None);
    assert!(lives(other.pid("program")));
}

#[tokio::test]
async fn a_program_may_be_started_again_when_it_has_ended() {
    let mut processes = nobody();
    let notes = Notes::new();
    let first = processes.start(A, notes.sh("exec sleep 600")).unwrap();
    let refused = processes.start(A, notes.sh("exec sleep 600")).unwrap_err().to_string();
    assert_eq!(refused, format!("process {first} of program key 1 still runs; end it before it is started again"));
    processes.end(A, grace(30_000)).await;
    let second = processes.start(A, notes.sh("exit 3")).unwrap();
    let exits = [processes.next_exit().await.unwrap(), processes.next_exit().await.unwrap()];
    assert_eq!(exits.map(|exit| (exit.pid, exit.outcome)), [(first, Outcome::Signal(15)), (second, Outcome::Code(3))]);
}

#[tokio::test]
async fn two_groups_do_not_touch_each_other() {
    let (mut ours, mut theirs) = (nobody(), nobody());
    let (notes, other) = (Notes::new(), Notes::new());
    ours.start(A, notes.python(FAMILY)).unwrap();
    theirs.start(A, other.python(FAMILY)).unwrap();
    theirs.start(B, other.sh("exit 4")).unwrap();
    let (family_of_ours, family_of_theirs) = (family(&notes), family(&other));
    // Whoever waits first takes the exits of all; each still hears of its own.
    ours.end_all(grace(30_000)).await;
    assert!(family_of_ours.iter().all(|pid| !lives(*pid)));
    assert!(family_of_theirs.iter().all(|pid| lives(*pid)));
    let exit = theirs.next_exit().await.unwrap();
    assert_eq!((exit.key, exit.outcome), (B, Outcome::Code(4)));
    assert_eq!(ours.next_exit().await.unwrap().outcome, Outcome::Signal(15));
    assert_eq!(ours.next_exit().await, None);
    drop(ours);
    assert!(family_of_theirs.iter().all(|pid| lives(*pid)));
    drop(theirs);
    await_condition("the end of the family", || family_of_theirs.iter().all(|pid| !lives(*pid)).then_some(()));
}
