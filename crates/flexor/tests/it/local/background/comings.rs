//! A cluster comes up, takes jobs, keeps what is over, and is told of.

use flexor_local::proc;
use serde_json::json;

use super::super::faults::process::server;
use super::super::faults::waiting::eventually;
use super::super::launch::folder::WAIT;
use super::super::launch::launcher::Launcher;
use super::super::run::cluster::job_of;
use super::super::verbs::laptop::redacted;
use super::cluster::Background;
use crate::program::Ran;

#[test]
fn jobs_come_and_go_while_the_cluster_stays() {
    let cluster = Background::new();
    assert_eq!(cluster.says(&["local", "up"]), "a laptop cluster is up in DIR/home (process PID)\n");
    let pid = cluster.process();
    let job = cluster.place.manifest(&job_of("first", 1, "echo $PWD > where"));
    assert_eq!(cluster.says(&["apply", "-f", &job]), "elasticjob.elastic.pytorch.org/first created\n");
    cluster.await_phase("first", "Succeeded");
    let folder = cluster.place.folder.path().canonicalize().unwrap();
    assert_eq!(cluster.place.folder.read("where").trim_end(), folder.to_str().unwrap());
    // What is over stays to be looked at.
    let logs = cluster.says(&["get", "pods", "-o", "name"]);
    assert!(logs.contains("pod/first-worker-0"), "{logs}");
    cluster.says(&["delete", "tej", "first"]);
    assert_eq!(cluster.process(), pid, "it stays when no job is left");
    assert_eq!(cluster.says(&["local", "down"]), "the laptop cluster in DIR/home is down\n");
    cluster.place.assert_nothing_is_left_of(&[]);
    assert!(!cluster.place.state_dir().socket().exists());
}

#[test]
fn it_is_told_of_to_people_and_programs() {
    let cluster = Background::new();
    let none = cluster.flexor(&["local", "status"]);
    let told = "no laptop cluster is up in DIR/home; `flexor local up` starts one\n";
    assert_eq!((none.code, cluster.shown(&none.stdout).as_str()), (3, told));
    let none = cluster.flexor(&["local", "status", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&none.stdout).unwrap();
    assert_eq!((none.code, &json["up"], &json["leftoverJobs"]), (3, &json!(false), &json!([])));
    let job = cluster.place.manifest(&job_of("one", 2, WAIT));
    let told = cluster.says(&["local", "up", "--cpus", "7", &job]);
    assert_eq!(told, "a laptop cluster is up in DIR/home (process PID)\nelasticjob.elastic.pytorch.org/one created\n");
    cluster.await_phase("one", "Running");
    cluster.place.await_running("one-worker-1");
    let told = redacted(&cluster.says(&["local", "status"]));
    let machine = std::thread::available_parallelism().unwrap().to_string();
    let told = told.replace(&format!("machine has {machine}"), "machine has N");
    let told = regex::Regex::new(r"Process:(\s+)\d+").unwrap().replace(&told, "Process:${1}PID").into_owned();
    let told = regex::Regex::new(r"(Memory Limits:\s+).*").unwrap().replace(&told, "${1}MEANS").into_owned();
    let told = told.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(told);
    let json = cluster.flexor(&["local", "status", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["up"], &json["pods"]["Running"], &json["cpus"]), (&json!(true), &json!(3), &json!("7")));
}

#[test]
fn a_second_up_finds_the_first() {
    let cluster = Background::new();
    cluster.says(&["local", "up"]);
    let pid = cluster.process();
    let job = cluster.place.manifest(&job_of("late", 1, "true"));
    assert_eq!(
        cluster.says(&["local", "up", &job]),
        "a laptop cluster is up already in DIR/home (process PID)\nelasticjob.elastic.pytorch.org/late created\n"
    );
    assert_eq!(cluster.process(), pid);
    // What cannot be had of one that is up is said.
    let other = cluster.flexor(&["local", "up", "--cpus", "3"]);
    assert_eq!(
        (other.code, other.stderr.as_str()),
        (
            0,
            "warning: it keeps the options of its start; `flexor local down` ends it, to start it with other options\n"
        )
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let (state_dir, job) = (cluster.place.state_dir(), cluster.place.folder.path().join(job));
    let mut up = server(&["local", "up", "--state-dir", state_dir.path().to_str().unwrap(), job.to_str().unwrap()]);
    let told: Ran = up.current_dir(elsewhere.path()).output().unwrap().into();
    assert_eq!((told.code, cluster.shown(&told.stderr).as_str()), (0, "warning: its programs run in DIR, not here\n"));
}

#[test]
fn of_many_at_once_one_wins_and_all_succeed() {
    let cluster = Background::new();
    let all: Vec<Launcher> = (0..6).map(|_| Launcher::start(&mut cluster.command(&["local", "up"]))).collect();
    let told: Vec<String> = all.into_iter().map(|up| up.wait_for(0).stdout).collect();
    assert_eq!(told.iter().filter(|told| told.contains("is up in")).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|told| told.contains("is up already in")).count(), 5, "{told:?}");
    let pid = cluster.process().to_string();
    assert!(told.iter().all(|told| told.contains(&format!("(process {pid})"))), "{told:?}");
}

#[test]
fn it_has_a_session_and_a_log_of_its_own() {
    let cluster = Background::new();
    cluster.says(&["local", "up"]);
    let pid = cluster.process().as_raw();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    let log = cluster.place.state_dir().log();
    for fd in [1, 2] {
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap(), log.canonicalize().unwrap());
    }
    eventually("a line", || std::fs::read_to_string(&log).unwrap().contains("up as process").then_some(()));
    assert!(proc::started(pid).is_some());
}

#[test]
fn a_log_that_is_full_is_put_aside() {
    let cluster = Background::new();
    let log = cluster.place.state_dir().log();
    std::fs::create_dir_all(cluster.place.state_dir().path()).unwrap();
    std::fs::write(&log, vec![b'x'; 2 << 20]).unwrap();
    cluster.says(&["local", "up"]);
    eventually("a line", || std::fs::read_to_string(&log).ok()?.contains("up as process").then_some(()));
    assert!(std::fs::metadata(&log).unwrap().len() < 1000);
    assert_eq!(std::fs::metadata(log.with_extension("log.1")).unwrap().len(), 2 << 20);
}

#[test]
fn nothing_is_started_for_what_is_refused() {
    let cluster = Background::new();
    std::fs::write(cluster.place.folder.path().join("bad.yaml"), "kind: ElasticJob\n").unwrap();
    let ran = cluster.flexor(&["local", "up", "bad.yaml"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(!cluster.place.state_dir().path().exists());
}

#[test]
fn a_run_in_the_same_folder_says_what_to_do_instead() {
    let cluster = Background::new();
    cluster.says(&["local", "up"]);
    let job = cluster.place.manifest(&job_of("second", 1, "true"));
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
