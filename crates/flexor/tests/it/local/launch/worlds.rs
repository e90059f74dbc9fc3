//! Tests several launchers at one master: their ranks, and the store that they share.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

use flexor_store::codec::Request;

use super::super::faults::master::JOB;
use super::super::faults::store_client::StoreClient;
use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, end_well, launch};

const TELL: &str = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE >> told";

/// The numbers that every process has written, by rank.
fn reports(folder: &Folder) -> Vec<Vec<usize>> {
    let numbers = |line: String| line.split(' ').map(|number| number.parse().unwrap()).collect();
    let mut reports: Vec<Vec<usize>> = folder.lines("told").into_iter().map(numbers).collect();
    reports.sort();
    reports
}

/// Checks that nodes of these sizes number their processes without a gap.
fn assert_numbered(reports: &[Vec<usize>], mut sizes: Vec<usize>) {
    let (processes, nodes) = (sizes.iter().sum::<usize>(), sizes.len());
    assert_eq!(reports.len(), processes, "every process was started once: {reports:?}");
    for (rank, line) in reports.iter().enumerate() {
        let [own, world, local, local_world, group, groups] = line[..] else { panic!("{line:?}") };
        assert_eq!((own, world, groups), (rank, processes, nodes), "{reports:?}");
        assert!(local < local_world && group < nodes, "{reports:?}");
        let first = rank - local;
        assert_eq!(
            (reports[first][2], reports[first][4]),
            (0, group),
            "processes of a node stand together: {reports:?}"
        );
    }
    let mut seen: Vec<usize> = reports.iter().filter(|line| line[2] == 0).map(|line| line[3]).collect();
    seen.sort_unstable();
    sizes.sort_unstable();
    assert_eq!(seen, sizes, "each node has its number of processes");
}

#[test]
fn two_nodes_of_two_processes_are_one_world() {
    let job = Job::start("2", "0");
    let nodes = [job.node(2, TELL), job.node(2, TELL)];
    end_well(nodes);
    assert_numbered(&reports(&job.folder), vec![2, 2]);
}

#[test]
fn three_nodes_of_different_sizes_are_one_world() {
    let job = Job::start("3", "0");
    let nodes = [1, 3, 2].map(|processes| job.node(processes, TELL));
    end_well(nodes);
    assert_numbered(&reports(&job.folder), vec![1, 2, 3]);
}

/// Two nodes without a master of their own, each with these options after the common ones.
fn without_a_master(common: &[&str], own: [&[&str]; 2]) -> Folder {
    let folder = Folder::new();
    let start = |own: &[&str]| {
        let mut command = launch(&folder, ["--nnodes=2", "--nproc-per-node=2"]);
        Launcher::start(command.args(common).args(own).args(["sh", "-c", TELL]))
    };
    end_well(own.map(start));
    folder
}

/// A port that is free at the moment.
pub fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn the_node_of_rank_0_serves_a_static_rendezvous() {
    let port = free_port();
    let common = ["--master-addr=127.0.0.1", "--master-port", &port];
    let folder = without_a_master(&common, [&["--node-rank=1"], &["--node-rank=0"]]);
    assert_numbered(&reports(&folder), vec![2, 2]);
}

#[test]
fn a_node_serves_an_elastic_rendezvous_on_request() {
    let endpoint = format!("127.0.0.1:{}", free_port());
    let common = ["--rdzv-backend=c10d", "--rdzv-endpoint", &endpoint];
    let folder = without_a_master(&common, [&["--rdzv-conf=is_host=true"], &["--rdzv-conf=is_host=false"]]);
    assert_numbered(&reports(&folder), vec![2, 2]);
}

#[test]
fn the_nodes_of_a_world_share_a_store_and_the_next_world_begins_with_an_empty_one() {
    let job = Job::start("2", "3");
    // The first world fails on request; the second succeeds.
    let script = format!(
        "echo $TORCHELASTIC_RUN_ID $FLEXOR_INCARNATION $MASTER_ADDR:$MASTER_PORT >> stores; \
         if [ ! -e fail ]; then n=0; while [ ! -e fail ] && [ $n -lt 1500 ]; do sleep 0.1; n=$((n+1)); done; \
         exit 1; fi; {WAIT}"
    );
    let nodes = [job.node(1, &script), job.node(1, &script)];
    let count = |key: &str, lines: &[String]| -> Vec<i64> {
        let address = |line: &String| line.split(' ').next_back().unwrap().parse::<SocketAddr>().unwrap();
        lines.iter().map(|line| StoreClient::connect(address(line)).unwrap().add(key, 1).unwrap()).collect()
    };
    let first = job.folder.await_lines("stores", 2);
    assert_eq!(count("/n", &first), [1, 2], "what one node adds the other sees");
    std::fs::write(job.folder.path().join("fail"), "").unwrap();
    let second = job.folder.await_lines("stores", 4).split_off(2);
    assert_eq!(count("/n", &second), [1, 2], "nothing of the first world is left");
    let incarnations = |lines: &[String]| -> BTreeSet<String> {
        lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert!(incarnations(&first).is_disjoint(&incarnations(&second)));
    job.folder.let_go();
    end_well(nodes);
}

#[test]
fn the_workers_store_is_a_plain_store_of_their_own() {
    let job = Job::start("1", "0");
    let node = job.node(1, &format!("echo $MASTER_ADDR:$MASTER_PORT >> stores; {WAIT}"));
    let address: SocketAddr = job.folder.await_lines("stores", 1)[0].parse().unwrap();
    let mut worker = StoreClient::connect(address).unwrap();
    let swap = |expected: &str, desired: &str| Request::CompareSet {
        key: "/lock".into(),
        expected: expected.to_owned().into(),
        desired: desired.to_owned().into(),
    };
    for (expected, desired) in [("", "not base64"), ("not base64", ""), ("", "bm8gcGlja2xl")] {
        worker.send(&swap(expected, desired)).unwrap();
        assert_eq!(worker.read_value().unwrap(), desired);
    }
    // The master's store has the same key under another name, and keys of others.
    let mut other = StoreClient::connect(job.master.ports.store).unwrap();
    other.set("/other", "x").unwrap();
    other.ping().unwrap();
    worker.send(&Request::GetNumKeys).unwrap();
    assert_eq!(worker.read_number().unwrap(), 1);
    worker.send(&Request::ListKeys).unwrap();
    assert_eq!(worker.read_number().unwrap(), 1);
    assert_eq!(worker.read_value().unwrap(), "/lock");
    job.folder.let_go();
    node.wait_for(0);
}

#[test]
fn the_address_of_a_static_rendezvous_is_the_store_of_the_current_world() {
    let (folder, port) = (Folder::new(), free_port());
    let script = format!(
        "echo $MASTER_ADDR:$MASTER_PORT >> stores; \
         if [ ! -e fail ]; then n=0; while [ ! -e fail ] && [ $n -lt 1500 ]; do sleep 0.1; n=$((n+1)); done; \
         exit 1; fi; {WAIT}"
    );
    let mut command = launch(&folder, ["--nnodes=1", "--max-restarts=1", "--master-addr=127.0.0.1", "--master-port"]);
    let node = Launcher::start(command.args([port.as_str(), "sh", "-c", &script]));
    let count = |line: &String| {
        assert_eq!(*line, format!("127.0.0.1:{port}"));
        StoreClient::connect(line.parse().unwrap()).unwrap().add("/n", 1).unwrap()
    };
    let first = folder.await_lines("stores", 1);
    assert_eq!([count(&first[0]), count(&first[0])], [1, 2]);
    std::fs::write(folder.path().join("fail"), "").unwrap();
    let second = folder.await_lines("stores", 2);
    assert_eq!(count(&second[1]), 1, "nothing of the first world is left");
    folder.let_go();
    node.wait_for(0);
}

#[test]
fn a_newcomer_restarts_the_others_without_a_charge() {
    let job = Job::start("1:2", "0");
    let script = format!("echo $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT >> told; {WAIT}");
    // Otherwise it would wait for a second node.
    job.expect(1);
    let first = job.node(1, &script);
    assert_eq!(job.folder.await_lines("told", 1), ["1 0"]);
    job.expect(2);
    let second = job.node(1, &script);
    assert_eq!(job.folder.await_lines("told", 3), ["1 0", "2 0", "2 0"]);
    job.folder.let_go();
    end_well([first, second]);
    assert_eq!(job.run()["programFailures"], 0);
}

#[test]
fn limits_that_differ_from_those_of_the_master_are_reported() {
    let job = Job::start("1", "2");
    let other = ["--nnodes=1:7", "--max-restarts=5"];
    let script = "echo $TORCHELASTIC_MAX_RESTARTS > restarts";
    let ended = Launcher::start(job.command().args(other).args(["--nproc-per-node=1", "sh", "-c", script])).wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for unheeded in ["--nnodes 1:7, the job has 1:1", "--max-restarts 5, the job has 2"] {
        assert!(ended.stderr.contains(unheeded), "{}", ended.stderr);
    }
    assert_eq!(job.folder.lines("restarts"), ["2"], "programs see what holds");
}

#[test]
fn limits_set_by_the_torchrun_environment_are_not_reported() {
    let job = Job::start("1", "2");
    let mut command = launch(&job.folder, ["--nproc-per-node=1"]);
    let endpoint = job.master.ports.grpc.to_string();
    for (name, value) in flexor_dialects::torchrun_env::variables("1:7", JOB, &endpoint) {
        command.env(name, value);
    }
    let ended = Launcher::start(command.args(["sh", "-c", "exit 0"])).wait_for(0);
    assert!(!ended.stderr.contains("overridden by the master"), "{}", ended.stderr);
}
