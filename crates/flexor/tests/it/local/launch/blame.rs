//! Tests which worker's batch is blamed when a program fails and its world ends.

use super::folder::WAIT;
use super::job::Job;
use super::launcher::{Launcher, end_well};

/// A node of this name. Its first worker leases a batch through the test, which learns its identity.
fn pod(job: &Job, name: &str, processes: &str, script: &str) -> Launcher {
    let who = r#"printf '"worker":"%s","incarnation":%s\n' $FLEXOR_WORKER $FLEXOR_INCARNATION"#;
    let script =
        format!("[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; [ $LOCAL_RANK = 1 ] || {who} > {name}; {script}");
    let options = ["--nproc-per-node", processes, "sh", "-c", &script];
    Launcher::start(job.command().env("POD_NAME", name).args(options))
}

#[test]
fn the_first_failed_worker_is_blamed_although_others_of_its_node_end_slowly() {
    let job = Job::start("2", "1");
    job.post("/api/datasets", r#"{"name":"numbers","records":2,"batch":1}"#);
    let slow = format!("trap 'echo > asked; sleep 3; exit 0' TERM; echo > waits; {WAIT}");
    let fails = "until [ -e leased ] && [ -e waits ]; do sleep 0.05; done; exit 3";
    let cause = pod(&job, "cause", "2", &format!("if [ $LOCAL_RANK = 1 ]; then {slow}; fi; {fails}"));
    // It fails because of the lost peer, and its failure would be reported first if the cause were reported only after
    // its node's end.
    let victim = pod(&job, "victim", "1", "until [ -e asked ]; do sleep 0.05; done; exit 4");
    for name in ["cause", "victim"] {
        let who = &job.folder.await_lines(name, 1)[0];
        let lease = job.post("/api/datasets/numbers/lease", &format!("{{{who},\"waitMs\":1000}}"));
        assert!(lease.contains(r#""batches":"#), "{lease}");
    }
    std::fs::write(job.folder.path().join("leased"), "").unwrap();
    end_well([cause, victim]);
    let log = job.master.log();
    assert!(log.contains("ProgramFailed: the program failed in cause/0"), "{log}");
    assert!(log.contains("WorkerLost: victim/0"), "{log}");
}
