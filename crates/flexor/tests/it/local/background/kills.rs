//! Tests kill -9 of the background process: its pods run on, and the next `up` adopts them.

use super::super::launch::folder::WAIT;
use super::super::run::cluster::job_of;
use super::cluster::BackgroundCluster;

#[test]
fn the_next_up_adopts_the_pods_and_keeps_their_history() {
    let cluster = BackgroundCluster::new();
    let job = cluster.workspace.manifest(&job_of("survivor", 2, WAIT));
    cluster.says(&["local", "up", &job]);
    let before =
        ["survivor-master", "survivor-worker-0", "survivor-worker-1"].map(|pod| cluster.workspace.await_running(pod));
    let events = cluster.says(&["events", "-o", "name"]);
    assert!(events.lines().count() >= 4, "{events}");
    cluster.kill();
    let status = cluster.flexor(&["local", "status"]);
    assert_eq!(
        (status.code, cluster.shown(&status.stdout).as_str()),
        (
            3,
            "no laptop cluster is up in DIR/home, but one that was killed has left survivor; `flexor local up` goes on \
             with them, `flexor local down` ends them\n"
        )
    );
    assert_eq!(
        cluster.says(&["local", "up"]),
        "a laptop cluster is up in DIR/home (process PID)\nit goes on with survivor\n"
    );
    for pod in &before {
        assert_eq!(cluster.workspace.await_running(&pod.name).status.supervisor, pod.status.supervisor, "{}", pod.name);
    }
    assert_eq!(cluster.says(&["events", "-o", "name"]), events, "what happened before is remembered, and nothing new");
    cluster.workspace.folder.let_go();
    cluster.await_phase("survivor", "Succeeded");
    let after = cluster.says(&["events"]);
    assert!(after.contains("JobCreated") && after.contains("JobSucceeded"), "{after}");
    cluster.says(&["local", "down"]);
    cluster.workspace.assert_nothing_is_left_of(&before);
}

#[test]
fn down_ends_pods_left_by_a_killed_cluster() {
    let cluster = BackgroundCluster::new();
    let job = cluster.workspace.manifest(&job_of("orphan", 2, WAIT));
    cluster.says(&["local", "up", &job]);
    let pods = ["orphan-master", "orphan-worker-0", "orphan-worker-1"].map(|pod| cluster.workspace.await_running(pod));
    cluster.kill();
    let message = cluster.says(&["local", "down"]);
    assert_eq!(message, "what a killed laptop cluster had left in DIR/home is ended: orphan\n");
    cluster.workspace.assert_nothing_is_left_of(&pods);
}

#[test]
fn a_run_adopts_a_background_cluster_and_the_reverse() {
    let cluster = BackgroundCluster::new();
    let job = cluster.workspace.manifest(&job_of("wanderer", 1, WAIT));
    cluster.says(&["local", "up", &job]);
    let pod = cluster.workspace.await_running("wanderer-worker-0");
    cluster.kill();
    let run = cluster.workspace.run_for_good(&["--resume"]);
    run.await_stdout("wanderer-worker-0: Running", 1);
    run.signal(nix::sys::signal::Signal::SIGKILL);
    run.wait();
    cluster.says(&["local", "up"]);
    assert_eq!(cluster.workspace.await_running("wanderer-worker-0").status.supervisor, pod.status.supervisor);
    cluster.workspace.folder.let_go();
    cluster.await_phase("wanderer", "Succeeded");
}
