//! Tests `flexor ps --elasticdl` as a process: it serves ElasticDL's workers, is killed, and resumes from its
//! checkpoint.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use flexor_wire::elasticdl as wire;
use flexor_wire::elasticdl::pserver_client::PserverClient;
use tonic::transport::Channel;

use crate::local::faults::deadline::PATIENCE;
use crate::program::{flexor, run};

const OPTIMIZER: [&str; 4] = ["--opt-type", "SGD", "--opt-args", "learning_rate=0.5;momentum=0.9;nesterov=False;"];

/// A server; killed with this.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts a server and waits until it prints its address.
    fn start(more: &[&str]) -> Self {
        let mut command = flexor(&["ps", "--elasticdl", "--listen", "127.0.0.1:0"]);
        command.args(OPTIMIZER).args(more).env("NO_COLOR", "1");
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let mut lines = log.lines().map(Result::unwrap);
        let serves = lines.find_map(|line| Some(line.split_once("listening=")?.1.split(' ').next()?.to_owned()));
        let address = format!("http://{}", serves.expect("it says where it serves"));
        // A thread drains its later output, so that it never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address }
    }

    async fn client(&self) -> PserverClient<Channel> {
        PserverClient::connect(self.address.clone()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ones() -> wire::Model {
    let shape = wire::TensorShapeProto { dim: vec![wire::tensor_shape_proto::Dim { size: 2 }] };
    let content: Vec<u8> = [1.0_f32; 2].iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = wire::TensorProto { dtype: 1, tensor_shape: Some(shape), tensor_content: content.into() };
    wire::Model { dense_parameters: [("w:0".to_owned(), tensor)].into(), ..Default::default() }
}

async fn pushed(client: &mut PserverClient<Channel>) -> i32 {
    let request = wire::PushGradientsRequest { gradients: Some(ones()), learning_rate: 0.0 };
    client.push_gradients(request).await.unwrap().into_inner().version
}

async fn pulled(client: &mut PserverClient<Channel>) -> (i32, Vec<u8>) {
    let request = wire::PullDenseParametersRequest { version: -1 };
    let answer = client.pull_dense_parameters(request).await.unwrap().into_inner();
    (answer.version, answer.dense_parameters["w:0"].tensor_content.to_vec())
}

#[tokio::test]
async fn a_server_that_is_killed_goes_on_from_its_checkpoint() {
    let output_folder = tempfile::tempdir().unwrap();
    let folder = output_folder.path().to_str().unwrap();
    let server = Server::start(&["--use-async", "--checkpoint_dir", folder, "--checkpoint_steps", "2"]);
    let mut client = server.client().await;
    client.push_model(ones()).await.unwrap();
    assert_eq!((pushed(&mut client).await, pushed(&mut client).await), (1, 2));
    let held = pulled(&mut client).await;
    let written = output_folder.path().join("version-2/ps-0-of-1/checkpoint-000000000002/manifest.json");
    await_file(&written).await;
    assert_eq!(pushed(&mut client).await, 3);
    let wanted = pulled(&mut client).await;
    drop(server);

    let server = Server::start(&["--use-async", "--checkpoint-dir-for-init", folder]);
    let mut client = server.client().await;
    assert_eq!(pulled(&mut client).await, held);
    // With the momentum that it had.
    assert_eq!(pushed(&mut client).await, 3);
    assert_eq!(pulled(&mut client).await, wanted);

    let native = output_folder.path().join("native");
    let args = ["checkpoint", "convert", folder, native.to_str().unwrap()];
    let converted = run(&args);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    assert!(native.join("checkpoint-000000000002/manifest.json").is_file());
    let again = run(&args);
    assert!(again.code != 0 && again.stderr.contains("has checkpoint 2 already"), "{}", again.stderr);
}

async fn await_file(path: &Path) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !path.is_file() {
        assert!(tokio::time::Instant::now() < deadline, "{} is not written", path.display());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn a_wrong_configuration_is_refused_before_serving() {
    let refused = |args: &[&str]| {
        let ran = run(&[&["ps", "--listen", "127.0.0.1:0"], args].concat());
        assert_ne!(ran.code, 0, "{args:?}");
        ran.stderr
    };
    let with = |more: &[&'static str]| [&["--elasticdl"][..], &OPTIMIZER, more].concat();
    assert!(refused(&["--elasticdl"]).contains("--elasticdl needs --opt-type and --opt-args"));
    let adamax = ["--elasticdl", "--opt-type", "Adamax", "--opt-args", "learning_rate=0.1;"];
    assert!(refused(&adamax).contains("no optimizer 'Adamax'; there are SGD, Adagrad and Adam"));
    assert!(refused(&with(&["--ps-id", "2", "--num-ps-pods", "2"])).contains("--ps-id 2: the job has 2 servers"));
    let nowhere = with(&["--checkpoint-dir-for-init", "/nowhere/at-all"]);
    assert!(refused(&nowhere).contains("cannot read '/nowhere/at-all'"));
    // Without --elasticdl its options are meaningless, and a native server needs its master.
    assert!(refused(&["--ps-id", "0", "--master", "127.0.0.1:1", "--name", "ps-0"]).contains("--elasticdl"));
    assert!(refused(&[]).contains("--master"));
}
