//! Tests ElasticDL's released worker and master, unchanged, with our parameter servers.
//!
//! They need Python 3.7, the last version that their TensorFlow supports; without it the test is skipped. The master
//! cannot start pods here, so `master.py` replaces its pod manager with a stub.

mod environment;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flexor_testbed::skip;
use flexor_wire::elasticdl as wire;
use flexor_wire::elasticdl::pserver_client::PserverClient;

use self::environment::Environment;
use crate::program::flexor;

/// Longer than any step takes; only a failing test waits this long.
const DEADLINE: Duration = Duration::from_secs(120);

/// A process that ends with its owner.
struct OwnedProcess(Child);

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut command: Command, log: &Path) -> OwnedProcess {
    let log = fs::File::create(log).unwrap();
    OwnedProcess(command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn await_text(log: &Path, text: &str) {
    let begun = Instant::now();
    while !fs::read_to_string(log).unwrap().contains(text) {
        assert!(begun.elapsed() < DEADLINE, "no '{text}' in {}", fs::read_to_string(log).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_released_worker_trains_with_our_servers() {
    let python = match Environment::ensure() {
        Ok(python) => python,
        Err(missing) => skip!("{missing}"),
    };
    let output_folder = tempfile::tempdir().unwrap();
    let log = |name: &str| output_folder.path().join(name);
    let ports = [free_port(), free_port()];
    let servers: Vec<OwnedProcess> = (0..)
        .zip(ports)
        .map(|(number, port)| {
            let mut server = flexor(&["ps", "--elasticdl", "--num-ps-pods", "2", "--use-async", "--ps-id"]);
            server.args([&number.to_string(), "--listen", &format!("127.0.0.1:{port}")]);
            server.args(["--opt-type", "SGD", "--opt-args", "learning_rate=0.5;momentum=0.0;nesterov=False;"]);
            server.arg("--checkpoint-dir").arg(log("checkpoints")).args(["--checkpoint-steps", "128"]);
            start(server, &log(&format!("ps-{number}")))
        })
        .collect();
    servers.iter().zip(0..).for_each(|(_, number)| await_text(&log(&format!("ps-{number}")), "listening="));

    let common =
        ["--model_def=clicks.custom_model", "--training_data=made-up", "--minibatch_size=64", "--num_epochs=6"];
    let master_port = free_port();
    let mut master = python.command(&["master.py"]);
    master.args(common).args(["--num_minibatches_per_task=16", "--num_ps_pods=2", "--num_workers=1"]);
    master.args(["--worker_image=none", "--job_name=clicks", &format!("--port={master_port}")]);
    let _master = start(master, &log("master"));
    await_text(&log("master"), "serves");

    let mut worker = python.command(&["-m", "elasticdl.python.worker.main", "--worker_id", "0"]);
    worker.args(["--master_addr", &format!("127.0.0.1:{master_port}"), "--job_type", "training_only"]);
    worker.args(["--ps_addrs", &format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]), "--log_loss_steps=64"]);
    worker.args(common);
    let mut worker = start(worker, &log("worker"));
    // 8,192 records, six times, in batches of 64.
    await_text(&log("master"), "finished");
    assert!(worker.0.wait().unwrap().success(), "{}", fs::read_to_string(log("worker")).unwrap());

    let output = fs::read_to_string(log("worker")).unwrap();
    let losses: Vec<f64> =
        output.lines().filter_map(|line| line.split_once("Loss = ")?.1.split(',').next()?.parse().ok()).collect();
    // Each is of one batch, so a single one is noisy.
    let last = losses.iter().rev().take(3).sum::<f64>() / 3.0;
    assert!(losses.len() >= 11 && losses[0] > 0.6 && last < 0.3, "{losses:?}");
    assert!(log("checkpoints/version-768/ps-1-of-2").is_dir());
    let versions = ports.map(version_of);
    assert_eq!(versions, [768, 768], "every server gets every push");
}

/// The version that a server reports.
fn version_of(port: u16) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = PserverClient::connect(format!("http://127.0.0.1:{port}")).await.unwrap();
        let request = wire::PullDenseParametersRequest { version: -1 };
        client.pull_dense_parameters(request).await.unwrap().into_inner().version
    })
}
