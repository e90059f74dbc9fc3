//! Tests the images: stock torchrun with torch from a mount of the nodes, torch's rendezvous in etcd, and Flexor.

use std::{env, path::PathBuf, time::Duration};

use flexor_testbed::{
    ClusterConfig, TestNamespace, await_condition, image_or_skip,
    images::{self, TORCH_FOLDER},
    nodes_or_skip, skip, torch_or_skip,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::pods::{address_of, create, pod, printed, run};

/// Every start of torch is seconds of work for a processor, and a busy machine has none to spare.
const TORCH_DEADLINE: Duration = Duration::from_secs(240);

const PROGRAM: &str =
    "import os, torch\nprint(torch.__version__.split('+')[0], os.environ['WORLD_SIZE'], flush=True)\n";

#[tokio::test]
async fn stock_torchrun_runs_in_containers_that_get_torch_from_their_node() {
    let torch = torch_or_skip!();
    let Some(packages) = images::torch_packages(&torch) else {
        skip!("needs Python 3.11 as `python3`: torch is installed for it, and containers have that version");
    };
    let config = ClusterConfig::with_nodes([]).and_real_nodes(1).with_node_mount(packages, TORCH_FOLDER);
    let cluster = nodes_or_skip!(config);
    cluster.add_image(&image_or_skip!(images::etcd()), "etcd:3.5").unwrap();
    let files = [&images::PROGRAMS[..], &[("hello.py", PROGRAM)]].concat();
    cluster.add_image(&image_or_skip!(images::torch(&files)), "torch-test:latest").unwrap();
    let namespace = cluster.namespace("torchrun").await.unwrap();
    let endpoint = format!("{}:2379", address_of(&run(&namespace, etcd()).await));

    let meet =
        |backend: &str| format!("--nnodes=1:1 --rdzv-backend={backend} --rdzv-endpoint={endpoint} --rdzv-id=job");
    let ways = [("standalone", "--standalone".to_owned()), ("etcd-v1", meet("etcd")), ("etcd-v2", meet("etcd-v2"))];
    for (name, rendezvous) in &ways {
        let line = format!("exec torchrun {rendezvous} --nproc-per-node=1 hello.py");
        create(&namespace, of_image(name, "torch-test:latest", json!(["sh", "-c", line]))).await;
    }
    for (name, _) in &ways {
        assert_eq!(log_of_success(&namespace, name).await.lines().last(), Some("2.15.0 1"), "{name}");
    }
    let train = |epochs: u32| format!("torchrun --standalone main.py --arch=resnet18 --epochs={epochs} --data=/data");
    let twice = json!(["sh", "-c", format!("{} && exec {}", train(2), train(3))]);
    create(&namespace, of_image("imagenet", "torch-test:latest", twice)).await;
    let log = log_of_success(&namespace, "imagenet").await;
    let steps: Vec<&str> = log.lines().filter_map(|line| line.split(" loss ").next()).collect();
    let expected = ["resnet18 begins with epoch 0", "epoch 0", "epoch 1", "resnet18 begins with epoch 2", "epoch 2"];
    assert_eq!(steps, expected.map(|step| format!("rank 0/1: {step}")), "{log}");
}

#[tokio::test]
async fn flexors_image_runs_the_program_under_test() {
    let Some(program) = env::var_os(flexor_model::env::BIN.name).map(PathBuf::from) else {
        skip!("needs FLEXOR_BIN, the program under test; `cargo xtask test` builds it");
    };
    let cluster = nodes_or_skip!();
    cluster.add_image(&image_or_skip!(images::flexor(&program)), "flexor:latest").unwrap();
    let namespace = cluster.namespace("flexor").await.unwrap();
    create(&namespace, of_image("version", "flexor:latest", json!(["flexor", "--version"]))).await;
    assert_eq!(log_of_success(&namespace, "version").await, format!("flexor {}\n", env!("CARGO_PKG_VERSION")));
}

/// A server that is ready when it answers in the interface that torch uses. It cannot write into its image: the mount
/// of the node must not depend on that.
fn etcd() -> Value {
    let command = [
        "etcd",
        "--enable-v2",
        "--data-dir=/dev/shm/etcd",
        "--listen-client-urls=http://0.0.0.0:2379",
        "--advertise-client-urls=http://etcd:2379",
    ];
    let mut pod = of_image("etcd", "etcd:3.5", json!(command));
    let container = &mut pod["spec"]["containers"][0];
    container["readinessProbe"] = json!({ "httpGet": { "path": "/v2/keys", "port": 2379 }, "periodSeconds": 1 });
    container["securityContext"] = json!({ "readOnlyRootFilesystem": true });
    pod
}

/// A pod of one container.
fn of_image(name: &str, image: &str, command: Value) -> Value {
    let mut pod = pod(name, "");
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod["spec"]["containers"][0]["command"] = command;
    pod
}

/// The pod's output when it has ended, as it must, well.
async fn log_of_success(namespace: &TestNamespace<'_>, name: &str) -> String {
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let ended = await_condition(TORCH_DEADLINE, namespace.api(), name, "to end", |pod: Option<&Pod>| {
        matches!(pod.and_then(phase).as_deref(), Some("Succeeded" | "Failed"))
    });
    let ended = ended.await.unwrap().unwrap();
    let log = printed(&mut namespace.kubectl(["logs", name]));
    assert_eq!(phase(&ended).as_deref(), Some("Succeeded"), "{:?}\n{log}", ended.status);
    log
}
