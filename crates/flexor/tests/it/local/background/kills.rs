//! kill -9 of the process in the background: its pods run on, and another `up` goes on with them.

use super::super::launch::folder::WAIT;
use super::super::run::cluster::job_of;
use super::cluster::Background;

#[test]
fn another_up_goes_on_with_the_pods_and_remembers_what_happened() {
    let cluster = Background::new();
    let job = cluster.place.manifest(&job_of("survivor", 2, WAIT));
    cluster.says(&["local", "up", &job]);
    let before =
        ["survivor-master", "survivor-worker-0", "survivor-worker-1"].map(|pod| cluster.place.await_running(pod));
    let events = cluster.says(&["events", "-o", "name"]);
    assert!(events.lines().count() >= 4, "{events}");
    cluster.kill();
    let status = cluster.flexor(&["local", "status"]);
    assert_eq!(
        (status.code, cluster.shown(&status.stdout).as_str()),
        (
            3,
            "no laptop cluster is up in DIR/home, but a killed one has left survivor; `flexor local up` resumes \
             them, `flexor local down` ends them\n"
        )
    );
    assert_eq!(
        cluster.says(&["local", "up"]),
        "a laptop cluster is up in DIR/home (process PID)\nit resumes survivor\n"
    );
    for pod in &before {
        assert_eq!(cluster.place.await_running(&pod.name).status.supervisor, pod.status.supervisor, "{}", pod.name);
    }
    assert_eq!(cluster.says(&["events", "-o", "name"]), events, "what happened before is remembered, and nothing new");
    cluster.place.folder.let_go();
    cluster.await_phase("survivor", "Succeeded");
    let after = cluster.says(&["events"]);
    assert!(after.contains("JobCreated") && after.contains("JobSucceeded"), "{after}");
    cluster.says(&["local", "down"]);
    cluster.place.assert_nothing_is_left_of(&before);
}

#[test]
fn down_ends_what_one_that_was_killed_has_left() {
    let cluster = Background::new();
    let job = cluster.place.manifest(&job_of("orphan", 2, WAIT));
    cluster.says(&["local", "up", &job]);
    let pods = ["orphan-master", "orphan-worker-0", "orphan-worker-1"].map(|pod| cluster.place.await_running(pod));
    cluster.kill();
    let told = cluster.says(&["local", "down"]);
    assert_eq!(told, "ended the jobs that a killed laptop cluster left in DIR/home: orphan\n");
    cluster.place.assert_nothing_is_left_of(&pods);
}

#[test]
fn a_run_goes_on_with_what_was_in_the_background_and_the_other_way_round() {
    let cluster = Background::new();
    let job = cluster.place.manifest(&job_of("wanderer", 1, WAIT));
    cluster.says(&["local", "up", &job]);
    let pod = cluster.place.await_running("wanderer-worker-0");
    cluster.kill();
    let run = cluster.place.run_for_good(&["--resume"]);
    run.await_stdout("wanderer-worker-0: Running", 1);
    run.signal(nix::sys::signal::Signal::SIGKILL);
    run.wait();
    cluster.says(&["local", "up"]);
    assert_eq!(cluster.place.await_running("wanderer-worker-0").status.supervisor, pod.status.supervisor);
    cluster.place.folder.let_go();
    cluster.await_phase("wanderer", "Succeeded");
}
