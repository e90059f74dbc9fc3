//! Pumped output.

use std::num::NonZeroU64;
use std::time::Duration;

use flexor_agent::processes::{Ladder, LogFile, Output, ProcessKey, Program, Rotation};

use crate::await_condition::await_condition;
use crate::notes::{Notes, no_processes};

const A: ProcessKey = ProcessKey(1);
const B: ProcessKey = ProcessKey(2);

fn rotated(notes: &Notes, name: &str) -> Output {
    let rotation = Rotation { limit: NonZeroU64::new(1000).unwrap(), keep: 2 };
    Output::Pumped { file: Some(LogFile::open(notes.file(name), Some(rotation)).unwrap()), prefix: None, watch: None }
}

#[tokio::test]
async fn a_full_log_is_rotated() {
    let (notes, mut processes) = (Notes::new(), no_processes());
    let script = "i=1000; while [ $i -lt 2000 ]; do echo line $i; echo error $i >&2; i=$((i+1)); done";
    let program = Program { stdout: rotated(&notes, "out"), stderr: rotated(&notes, "err"), ..notes.sh(script) };
    processes.start(A, program).unwrap();
    processes.next_exit().await.unwrap();
    processes.end(A, Ladder::default()).await;
    for (name, word) in [("out", "line"), ("err", "error")] {
        let files = ["", ".1", ".2"].map(|age| notes.text(&format!("{name}{age}")).unwrap());
        assert_eq!(notes.text(&format!("{name}.3")), None);
        assert!(files.iter().all(|file| file.len() <= 1000));
        let kept = [files[2].as_str(), &files[1], &files[0]].concat();
        let all: String = (1000..2000).map(|number| format!("{word} {number}\n")).collect();
        // A read may end inside a line, so the oldest file may begin inside one.
        assert!(all.ends_with(&kept) && kept.len() > 1980, "the last of what was written, with no gap: {kept}");
    }
}

#[tokio::test]
async fn a_program_is_ended_while_others_write_on() {
    let (notes, mut processes) = (Notes::new(), no_processes());
    let writes = |name| Program { stdout: rotated(&notes, name), ..notes.sh("while :; do echo $$; sleep 0.01; done") };
    let [a, b] = [(A, "a"), (B, "b")].map(|(key, name)| processes.start(key, writes(name)).unwrap());
    let first = |name: &str| notes.text(name)?.lines().next().map(str::to_owned);
    assert_eq!(await_condition("a line of A", || first("a")), a.to_string());
    processes.end(A, Ladder { grace: Duration::from_secs(30), ..Ladder::default() }).await;
    let (ended, before) = (notes.text("a"), notes.text("b").unwrap());
    await_condition("more of B", || (notes.text("b")? != before).then_some(()));
    assert_eq!(first("b").unwrap(), b.to_string());
    assert_eq!(notes.text("a"), ended);
}
