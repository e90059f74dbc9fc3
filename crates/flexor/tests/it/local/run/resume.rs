//! Tests kill -9 of `flexor run`: pods run on, and `--resume` adopts them. With `--ephemeral` they end with the run.

use flexor_local::pods::status::PodPhase;
use flexor_local::proc;
use nix::sys::signal::{Signal, kill};

use super::super::data::report::WrittenRecords;
use super::super::faults::deadline::eventually;
use super::super::launch::launcher::await_gone;
use super::cluster::{LocalPod, Workspace, job_of};
use super::endings::ANY_PROGRAM;

/// Waits until the test lets it end, with a timeout.
const WAIT: &str = super::super::launch::folder::WAIT;

fn killed(run: super::super::launch::launcher::Launcher) {
    run.signal(Signal::SIGKILL);
    assert_eq!(run.wait().code, None);
}

#[test]
fn pods_outlive_the_run_and_the_next_run_adopts_them() {
    let workspace = Workspace::new();
    let run = workspace.run_for_good(&[ANY_PROGRAM]);
    workspace.await_records(100);
    killed(run);
    let before = workspace.pods();
    assert_eq!(before.len(), 3);
    workspace.await_records(300);
    let ended = workspace.run_for_good(&["--resume"]).wait_for(0);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!((written.records(), written.repeats()), (1000, 0), "no pod was restarted: {}", ended.stdout);
    assert!(ended.stdout.trim_end().ends_with("pods started again: 0"), "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&before);
}

#[test]
fn a_run_may_be_killed_at_any_moment_and_as_often_as_you_like() {
    let workspace = Workspace::new();
    let mut run = workspace.run_for_good(&[ANY_PROGRAM]);
    // From before the first pod is made to the middle of the job.
    for milliseconds in [0, 3, 6, 10, 15, 20, 30, 50, 80, 120] {
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        killed(run);
        let known = workspace.state_dir().jobs().join("default.any-program.json").exists();
        run = workspace.run_for_good(&[if known { "--resume" } else { ANY_PROGRAM }]);
    }
    let ended = run.wait_for(0);
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000, "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_pod_lost_after_a_takeover_is_replaced() {
    let workspace = Workspace::new();
    let run = workspace.run_for_good(&[ANY_PROGRAM]);
    workspace.await_records(100);
    killed(run);
    let run = workspace.run_for_good(&["--resume"]);
    workspace.await_records(200);
    for (pod, records) in [("any-program-master", 300), ("any-program-worker-1", 400), ("any-program-master", 500)] {
        let victim = workspace.await_running(pod);
        nix::sys::signal::kill(victim.supervisor(), Signal::SIGKILL).unwrap();
        eventually("its replacement", || {
            (workspace.await_running(pod).status.supervisor != victim.status.supervisor).then_some(())
        });
        workspace.await_records(records);
    }
    run.wait_for(0);
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000);
}

#[test]
fn a_pod_that_ended_between_two_runs_keeps_its_exit_code() {
    let workspace = Workspace::new();
    // The first fails in its first incarnation.
    let script = format!(
        "echo life >> lives-$POD_NAME; {WAIT}; case $POD_NAME in *-0) [ $(wc -l < lives-$POD_NAME) -ge 2 ] || exit 9 ;; esac"
    );
    let job = workspace.manifest(&job_of("away", 2, &script));
    let run = workspace.run_for_good(&[&job]);
    for pod in ["away-worker-0", "away-worker-1"] {
        workspace.folder.await_lines(&format!("lives-{pod}"), 1);
    }
    killed(run);
    workspace.folder.let_go();
    let ended = |phase: PodPhase| move |pod: &LocalPod| pod.status.phase == phase;
    eventually("the end of both", || {
        let pods = workspace.pods();
        (pods.iter().any(ended(PodPhase::Failed)) && pods.iter().any(ended(PodPhase::Succeeded))).then_some(())
    });
    let ended = workspace.run_for_good(&["--resume"]).wait_for(0);
    assert!(ended.stdout.contains("away-worker-0: ProgramError: exit code 9"), "{}", ended.stdout);
    assert!(ended.stdout.contains("away-worker-1: ProgramSucceeded"), "{}", ended.stdout);
    assert_eq!(["0", "1"].map(|n| workspace.folder.lines(&format!("lives-away-worker-{n}")).len()), [2, 1]);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn with_ephemeral_everything_ends_with_the_run() {
    let workspace = Workspace::new();
    let script = "trap '' TERM; echo $$ >> ids; while :; do sleep 0.02; done";
    let run = workspace.run(&[&workspace.manifest(&job_of("owned", 2, script))]);
    let ids = workspace.folder.await_lines("ids", 2);
    let pods = ["owned-master", "owned-worker-0", "owned-worker-1"].map(|pod| workspace.await_running(pod));
    killed(run);
    ids.iter().for_each(|id| await_gone(id));
    for pod in pods {
        eventually("the end of its supervisor", || (!proc::is_alive(pod.status.supervisor)).then_some(()));
    }
}

#[test]
fn a_killed_run_is_resumed_only_with_resume() {
    let workspace = Workspace::new();
    let run = workspace.run_for_good(&[ANY_PROGRAM]);
    workspace.await_records(10);
    killed(run);
    let ended = workspace.run_for_good(&[ANY_PROGRAM]).wait_for(1);
    assert_eq!(
        ended.stderr,
        "error: a run that was killed has left its jobs here: any-program; `flexor run --resume` goes on with them, and \
         Ctrl-C there ends them\n"
    );
    let run = workspace.run_for_good(&["--resume"]);
    let pods = workspace.pods();
    run.await_stdout("any-program-worker-1: Running", 1);
    run.signal(Signal::SIGINT);
    run.wait_for(130);
    workspace.assert_nothing_is_left_of(&pods);
}

#[test]
fn resume_without_an_interrupted_run_is_refused() {
    let workspace = Workspace::new();
    let ended = workspace.run(&["--resume"]).wait_for(1);
    assert_eq!(ended.stderr, "error: there is nothing to go on with; `flexor run FILE` starts a job\n");
}

#[test]
fn processes_of_a_supervisor_that_died_between_two_runs_are_ended_before_the_slot_is_refilled() {
    let workspace = Workspace::new();
    let script = format!("setsid sleep 600 & echo $! >> daemons; {WAIT}");
    let run = workspace.run_for_good(&[&workspace.manifest(&job_of("orphans", 1, &script))]);
    let pod = workspace.await_running("orphans-worker-0");
    let daemons = eventually("its daemon", || Some(workspace.folder.lines("daemons")).filter(|lines| lines.len() == 1));
    killed(run);
    kill(pod.supervisor(), Signal::SIGKILL).unwrap();
    eventually("the end of the supervisor", || (!proc::is_alive(pod.status.supervisor)).then_some(()));
    let run = workspace.run_for_good(&["--resume"]);
    await_gone(&daemons[0]);
    eventually("another incarnation", || (workspace.folder.lines("daemons").len() == 2).then_some(()));
    std::fs::write(workspace.folder.path().join("go"), "").unwrap();
    run.wait_for(0);
    workspace.folder.lines("daemons").iter().for_each(|daemon| await_gone(daemon));
}
