//! kill -9 of `flexor run` itself: what runs goes on, and `--resume` goes on with it. With `--ephemeral` it all ends.

use flexor_local::pods::status::PodPhase;
use flexor_local::proc;
use nix::sys::signal::{Signal, kill};

use super::super::data::report::Written;
use super::super::faults::waiting::eventually;
use super::super::launch::launcher::await_gone;
use super::cluster::{Place, SeenPod, job_of};
use super::endings::ANY_PROGRAM;

/// Waits until the test lets it go, or a while.
const WAIT: &str = super::super::launch::folder::WAIT;

fn killed(run: super::super::launch::launcher::Launcher) {
    run.signal(Signal::SIGKILL);
    assert_eq!(run.wait().code, None);
}

#[test]
fn pods_outlive_the_run_and_another_takes_them_over() {
    let place = Place::new();
    let run = place.run_for_good(&[ANY_PROGRAM]);
    place.await_records(100);
    killed(run);
    let before = place.pods();
    assert_eq!(before.len(), 3);
    place.await_records(300);
    let ended = place.run_for_good(&["--resume"]).wait_for(0);
    let written = Written::read(&place.folder);
    assert_eq!((written.records(), written.repeats()), (1000, 0), "nobody was started again: {}", ended.stdout);
    assert!(ended.stdout.trim_end().ends_with("pods started again: 0"), "{}", ended.stdout);
    place.assert_nothing_is_left_of(&before);
}

#[test]
fn a_run_may_be_killed_at_any_moment_and_as_often_as_you_like() {
    let place = Place::new();
    let mut run = place.run_for_good(&[ANY_PROGRAM]);
    // From before the first pod is made to the middle of the job.
    for milliseconds in [0, 3, 6, 10, 15, 20, 30, 50, 80, 120] {
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        killed(run);
        let known = place.state_dir().jobs().join("default.any-program.json").exists();
        run = place.run_for_good(&[if known { "--resume" } else { ANY_PROGRAM }]);
    }
    let ended = run.wait_for(0);
    assert_eq!(Written::read(&place.folder).records(), 1000, "{}", ended.stdout);
    place.assert_nothing_is_left_of(&[]);
}

#[test]
fn what_is_lost_after_another_has_taken_over_is_started_again() {
    let place = Place::new();
    let run = place.run_for_good(&[ANY_PROGRAM]);
    place.await_records(100);
    killed(run);
    let run = place.run_for_good(&["--resume"]);
    place.await_records(200);
    for (pod, records) in [("any-program-master", 300), ("any-program-worker-1", 400), ("any-program-master", 500)] {
        let victim = place.await_running(pod);
        nix::sys::signal::kill(victim.parent(), Signal::SIGKILL).unwrap();
        eventually("its replacement", || {
            (place.await_running(pod).status.supervisor != victim.status.supervisor).then_some(())
        });
        place.await_records(records);
    }
    run.wait_for(0);
    assert_eq!(Written::read(&place.folder).records(), 1000);
}

#[test]
fn what_ended_while_nobody_looked_has_ended_with_its_code() {
    let place = Place::new();
    // The first fails in its first life.
    let script = format!(
        "echo life >> lives-$POD_NAME; {WAIT}; case $POD_NAME in *-0) [ $(wc -l < lives-$POD_NAME) -ge 2 ] || exit 9 ;; esac"
    );
    let job = place.manifest(&job_of("away", 2, &script));
    let run = place.run_for_good(&[&job]);
    for pod in ["away-worker-0", "away-worker-1"] {
        place.folder.await_lines(&format!("lives-{pod}"), 1);
    }
    killed(run);
    place.folder.let_go();
    let ended = |phase: PodPhase| move |pod: &SeenPod| pod.status.phase == phase;
    eventually("the end of both", || {
        let pods = place.pods();
        (pods.iter().any(ended(PodPhase::Failed)) && pods.iter().any(ended(PodPhase::Succeeded))).then_some(())
    });
    let ended = place.run_for_good(&["--resume"]).wait_for(0);
    assert!(ended.stdout.contains("away-worker-0: ProgramError: exit code 9"), "{}", ended.stdout);
    assert!(ended.stdout.contains("away-worker-1: ProgramSucceeded"), "{}", ended.stdout);
    assert_eq!(["0", "1"].map(|n| place.folder.lines(&format!("lives-away-worker-{n}")).len()), [2, 1]);
    place.assert_nothing_is_left_of(&[]);
}

#[test]
fn with_ephemeral_everything_ends_with_the_run() {
    let place = Place::new();
    let script = "trap '' TERM; echo $$ >> ids; while :; do sleep 0.02; done";
    let run = place.run(&[&place.manifest(&job_of("owned", 2, script))]);
    let ids = place.folder.await_lines("ids", 2);
    let pods = ["owned-master", "owned-worker-0", "owned-worker-1"].map(|pod| place.await_running(pod));
    killed(run);
    ids.iter().for_each(|id| await_gone(id));
    for pod in pods {
        eventually("the end of its parent", || (!proc::is_alive(pod.status.supervisor)).then_some(()));
    }
}

#[test]
fn a_run_that_was_killed_is_not_gone_on_with_unless_that_is_wanted() {
    let place = Place::new();
    let run = place.run_for_good(&[ANY_PROGRAM]);
    place.await_records(10);
    killed(run);
    let ended = place.run_for_good(&[ANY_PROGRAM]).wait_for(1);
    assert_eq!(
        ended.stderr,
        "error: a run that was killed has left its jobs here: any-program; `flexor run --resume` resumes them, and \
         Ctrl-C there ends them\n"
    );
    let run = place.run_for_good(&["--resume"]);
    let pods = place.pods();
    run.await_stdout("any-program-worker-1: Running", 1);
    run.signal(Signal::SIGINT);
    run.wait_for(130);
    place.assert_nothing_is_left_of(&pods);
}

#[test]
fn there_may_be_nothing_to_go_on_with() {
    let place = Place::new();
    let ended = place.run(&["--resume"]).wait_for(1);
    assert_eq!(ended.stderr, "error: there is no job to resume; `flexor run FILE` starts a job\n");
}

#[test]
fn what_a_parent_left_that_died_while_nobody_looked_is_ended_before_its_place_is_filled_again() {
    let place = Place::new();
    let script = format!("setsid sleep 600 & echo $! >> daemons; {WAIT}");
    let run = place.run_for_good(&[&place.manifest(&job_of("orphans", 1, &script))]);
    let pod = place.await_running("orphans-worker-0");
    let daemons = eventually("its daemon", || Some(place.folder.lines("daemons")).filter(|lines| lines.len() == 1));
    killed(run);
    kill(pod.parent(), Signal::SIGKILL).unwrap();
    eventually("the end of the parent", || (!proc::is_alive(pod.status.supervisor)).then_some(()));
    let run = place.run_for_good(&["--resume"]);
    await_gone(&daemons[0]);
    eventually("another life", || (place.folder.lines("daemons").len() == 2).then_some(()));
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    run.wait_for(0);
    place.folder.lines("daemons").iter().for_each(|daemon| await_gone(daemon));
}
