//! Tests the life of a background cluster: start, jobs, finished jobs, and status.

use flexor_local::proc;
use serde_json::json;

use super::super::faults::deadline::eventually;
use super::super::faults::process::server;
use super::super::launch::folder::WAIT;
use super::super::launch::launcher::Launcher;
use super::super::run::cluster::job_of;
use super::super::verbs::laptop::redacted;
use super::cluster::BackgroundCluster;
use crate::program::ProgramOutput;

#[test]
fn jobs_are_added_and_deleted_while_the_cluster_stays() {
    let cluster = BackgroundCluster::new();
    assert_eq!(cluster.says(&["local", "up"]), "a laptop cluster is up in DIR/home (process PID)\n");
    let pid = cluster.process();
    let job = cluster.workspace.manifest(&job_of("first", 1, "echo $PWD > where"));
    assert_eq!(cluster.says(&["apply", "-f", &job]), "elasticjob.elastic.pytorch.org/first created\n");
    cluster.await_phase("first", "Succeeded");
    let folder = cluster.workspace.folder.path().canonicalize().unwrap();
    assert_eq!(cluster.workspace.folder.read("where").trim_end(), folder.to_str().unwrap());
    // Finished jobs stay visible.
    let logs = cluster.says(&["get", "pods", "-o", "name"]);
    assert!(logs.contains("pod/first-worker-0"), "{logs}");
    cluster.says(&["delete", "tej", "first"]);
    assert_eq!(cluster.process(), pid, "it stays when no job is left");
    assert_eq!(cluster.says(&["local", "down"]), "the laptop cluster in DIR/home is down\n");
    cluster.workspace.assert_nothing_is_left_of(&[]);
    assert!(!cluster.workspace.state_dir().socket().exists());
}

#[test]
fn the_status_is_printed_for_people_and_programs() {
    let cluster = BackgroundCluster::new();
    let none = cluster.flexor(&["local", "status"]);
    let message = "no laptop cluster is up in DIR/home; `flexor local up` starts one\n";
    assert_eq!((none.code, cluster.shown(&none.stdout).as_str()), (3, message));
    let none = cluster.flexor(&["local", "status", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&none.stdout).unwrap();
    assert_eq!((none.code, &json["up"], &json["left"]), (3, &json!(false), &json!([])));
    let job = cluster.workspace.manifest(&job_of("one", 2, WAIT));
    let message = cluster.says(&["local", "up", "--cpus", "7", &job]);
    assert_eq!(
        message,
        "a laptop cluster is up in DIR/home (process PID)\nelasticjob.elastic.pytorch.org/one created\n"
    );
    cluster.await_phase("one", "Running");
    cluster.workspace.await_running("one-worker-1");
    let message = redacted(&cluster.says(&["local", "status"]));
    let machine = std::thread::available_parallelism().unwrap().to_string();
    let message = message.replace(&format!("machine has {machine}"), "machine has N");
    let message = regex::Regex::new(r"Process:(\s+)\d+").unwrap().replace(&message, "Process:${1}PID").into_owned();
    let message = regex::Regex::new(r"(Memory Limits:\s+).*").unwrap().replace(&message, "${1}MEANS").into_owned();
    let message = message.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(message);
    let json = cluster.flexor(&["local", "status", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["up"], &json["pods"]["Running"], &json["cpus"]), (&json!(true), &json!(3), &json!("7")));
}

#[test]
fn a_second_up_finds_the_first() {
    let cluster = BackgroundCluster::new();
    cluster.says(&["local", "up"]);
    let pid = cluster.process();
    let job = cluster.workspace.manifest(&job_of("late", 1, "true"));
    assert_eq!(
        cluster.says(&["local", "up", &job]),
        "a laptop cluster is up already in DIR/home (process PID)\nelasticjob.elastic.pytorch.org/late created\n"
    );
    assert_eq!(cluster.process(), pid);
    // A running cluster refuses options that it cannot change.
    let other = cluster.flexor(&["local", "up", "--cpus", "3"]);
    assert_eq!(
        (other.code, other.stderr.as_str()),
        (0, "warning: it goes on as it was started; `flexor local down` ends it, to be started otherwise\n")
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let (state_dir, job) = (cluster.workspace.state_dir(), cluster.workspace.folder.path().join(job));
    let mut up = server(&["local", "up", "--state-dir", state_dir.path().to_str().unwrap(), job.to_str().unwrap()]);
    let message: ProgramOutput = up.current_dir(elsewhere.path()).output().unwrap().into();
    assert_eq!(
        (message.code, cluster.shown(&message.stderr).as_str()),
        (0, "warning: its programs run in DIR, not here\n")
    );
}

#[test]
fn of_many_concurrent_ups_one_starts_the_cluster_and_all_succeed() {
    let cluster = BackgroundCluster::new();
    let all: Vec<Launcher> = (0..6).map(|_| Launcher::start(&mut cluster.command(&["local", "up"]))).collect();
    let message: Vec<String> = all.into_iter().map(|up| up.wait_for(0).stdout).collect();
    assert_eq!(message.iter().filter(|message| message.contains("is up in")).count(), 1, "{message:?}");
    assert_eq!(message.iter().filter(|message| message.contains("is up already in")).count(), 5, "{message:?}");
    let pid = cluster.process().to_string();
    assert!(message.iter().all(|message| message.contains(&format!("(process {pid})"))), "{message:?}");
}

#[test]
fn the_background_process_has_its_own_session_and_log() {
    let cluster = BackgroundCluster::new();
    cluster.says(&["local", "up"]);
    let pid = cluster.process().as_raw();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    let log = cluster.workspace.state_dir().log();
    for fd in [1, 2] {
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap(), log.canonicalize().unwrap());
    }
    eventually("a line", || std::fs::read_to_string(&log).unwrap().contains("up as process").then_some(()));
    assert!(proc::started(pid).is_some());
}

#[test]
fn a_log_that_is_full_is_put_aside() {
    let cluster = BackgroundCluster::new();
    let log = cluster.workspace.state_dir().log();
    std::fs::create_dir_all(cluster.workspace.state_dir().path()).unwrap();
    std::fs::write(&log, vec![b'x'; 2 << 20]).unwrap();
    cluster.says(&["local", "up"]);
    eventually("a line", || std::fs::read_to_string(&log).ok()?.contains("up as process").then_some(()));
    assert!(std::fs::metadata(&log).unwrap().len() < 1000);
    assert_eq!(std::fs::metadata(log.with_extension("log.1")).unwrap().len(), 2 << 20);
}

#[test]
fn a_refused_manifest_starts_no_pod() {
    let cluster = BackgroundCluster::new();
    std::fs::write(cluster.workspace.folder.path().join("bad.yaml"), "kind: ElasticJob\n").unwrap();
    let ran = cluster.flexor(&["local", "up", "bad.yaml"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(!cluster.workspace.state_dir().path().exists());
}

#[test]
fn a_run_in_the_same_folder_says_what_to_do_instead() {
    let cluster = BackgroundCluster::new();
    cluster.says(&["local", "up"]);
    let job = cluster.workspace.manifest(&job_of("second", 1, "true"));
    let ran = cluster.flexor(&["run", &job]);
    assert_eq!(
        (ran.code, cluster.shown(&ran.stderr).as_str()),
        (
            3,
            "error: a laptop cluster runs already in DIR/home; `flexor apply -f FILE` gives it more jobs, `flexor local \
             down` ends it, --state-dir DIR starts another beside it\n"
        )
    );
}
