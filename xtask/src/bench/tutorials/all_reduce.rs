//! The job of the tutorial on all-reduce: two workers of stock torchrun. One is deleted while they train.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::site::{NAMESPACE, Site, object};
use crate::bench::operator::api::pods;
use crate::bench::row::Row;

/// What the tutorials show: the age of the job at PHASE Running, and of the worker that came back.
const PUBLISHED_RUNNING: f64 = 20.0;
const PUBLISHED_REPLACED: f64 = 80.0;
/// To reach beyond the start of a bare pod.
const MARK: f64 = 5.0;
/// In the line of every training step.
const STEP: &str = "loss";

pub(super) async fn run(site: &Site, repeats: u32) -> Result<Vec<Row>> {
    let (mut running, mut first_step, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare_running, mut bare_step) = (Vec::new(), Vec::new());
    for repeat in 0..repeats {
        let bare = format!("bare-{repeat}");
        let began = Instant::now();
        site.api.post(&pods(NAMESPACE), &bare_pod(&bare)).await?;
        let path = format!("{}/{bare}", pods(NAMESPACE));
        site.eventually("the bare pod to run", async || Ok(site.api.get(&path).await?["status"]["phase"] == "Running"))
            .await?;
        bare_running.push(began.elapsed().as_secs_f64());
        site.await_log(&bare, STEP).await?;
        bare_step.push(began.elapsed().as_secs_f64());
        site.api.delete(&format!("{path}?gracePeriodSeconds=0")).await?;

        let job = format!("mnist-{repeat}");
        let began = Instant::now();
        site.create("elasticjobs", &object("ElasticJob", &job, &spec(&job))).await?;
        site.await_phase("elasticjobs", &job, "Running").await?;
        running.push(began.elapsed().as_secs_f64());
        let worker = |number: u32| format!("{job}-edljob-worker-{number}");
        site.await_log(&worker(0), STEP).await?;
        first_step.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let path = format!("{}/{}", pods(NAMESPACE), worker(1));
        let uid = site.api.get(&path).await?["metadata"]["uid"].clone();
        site.api.delete(&path).await?;
        // The successor has the same name.
        let is_new = async || Ok(site.api.get(&path).await.is_ok_and(|pod| pod["metadata"]["uid"] != uid));
        site.eventually("the replacement", is_new).await?;
        site.await_log(&worker(1), "/2 restart").await?;
        site.await_log(&worker(1), "loss").await?;
        replaced.push(began.elapsed().as_secs_f64());
        site.delete_job(&job).await?;
    }
    let beyond = |ours: &[f64], bare: &[f64]| ours.iter().zip(bare).map(|(ours, bare)| ours - bare).collect::<Vec<_>>();
    let bare = "a bare pod of the same program";
    Ok(vec![
        Row::published("apply: until PHASE Running", "s", &running, "DLRover's tutorial", PUBLISHED_RUNNING)?,
        Row::seconds("apply: until PHASE Running, beside a bare pod", &running, bare, &bare_running, 0.0)?
            .for_information(),
        Row::seconds("apply: until the first step is done", &first_step, bare, &bare_step, 0.0)?.for_information(),
        Row::within(
            "apply: until the first step is done, beyond a bare pod",
            "s",
            &beyond(&first_step, &bare_step),
            MARK,
        )?,
        Row::published(
            "worker deleted: until its replacement trains",
            "s",
            &replaced,
            "DLRover's tutorial",
            PUBLISHED_REPLACED,
        )?,
        Row::within(
            "worker deleted: until its replacement trains, beyond a bare pod",
            "s",
            &beyond(&replaced, &bare_step),
            MARK,
        )?,
    ])
}

fn spec(job: &str) -> Value {
    json!({
        "distributionStrategy": "AllreduceStrategy",
        "replicaSpecs": { "worker": {
            "replicas": 2,
            "autoScale": false,
            "template": { "spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [container(job, &[])],
                "volumes": [shared_disk()],
            } },
        } },
    })
}

/// The same container in a pod without a controller and without a sidecar: torchrun is its own rendezvous.
fn bare_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never",
            "containers": [container(name, &["--standalone"])],
            "volumes": [shared_disk()],
        },
    })
}

/// The checkpoint is on the disk that all nodes share: a replacement goes on from the step of the others.
fn container(job: &str, options: &[&str]) -> Value {
    let checkpoint = format!("--checkpoint=/data/{job}.pt");
    let program = ["--nproc-per-node=1", "train.py", "--epochs=100000", "--log-every=1", &checkpoint];
    let command: Vec<&str> = ["torchrun"].iter().chain(options).chain(&program).copied().collect();
    json!({
        "name": "main",
        "image": "torch-mnist:latest",
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
    })
}

fn shared_disk() -> Value {
    json!({ "name": "data", "persistentVolumeClaim": { "claimName": "pvc-nas" } })
}
