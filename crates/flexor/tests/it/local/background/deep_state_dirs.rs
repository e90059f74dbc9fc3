//! Tests a state directory whose path is longer than a Unix socket address allows.

use super::super::run::cluster::job_of;
use super::cluster::BackgroundCluster;

#[test]
fn a_state_directory_may_have_any_path_length() {
    let deep = format!("{}/{}/ho me", "deep".repeat(20), "deeper".repeat(20));
    let cluster = BackgroundCluster::in_folder(&deep);
    cluster.says(&["local", "up"]);
    let job = cluster.workspace.manifest(&job_of("deep", 1, "true"));
    cluster.says(&["apply", "-f", &job]);
    cluster.await_phase("deep", "Succeeded");
    let message = cluster.says(&["local", "down"]);
    assert!(message.ends_with("is down\n"), "{message}");
    assert_eq!(cluster.flexor(&["get", "pods"]).code, 3);
}
