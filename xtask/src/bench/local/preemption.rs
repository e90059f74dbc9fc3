//! Two torch-mnist jobs on four CPUs. The more important one starts at once; the other gives up only the pods that it
//! must, trains on with the rest, and regains the room. Keeps the report of the run, with its picture.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flexor_testbed::Torch;
use serde_json::{Value, json};

use super::Row;
use super::run::{Run, folder};
use crate::tree::project_root;

const CPUS: &str = "4";
const LIMIT: Duration = Duration::from_secs(180);
/// Seconds from when there is room until the more important job's pods run, and until the other has its room back.
const MARK: f64 = 1.0;
/// How many seconds the preempted programs may take to end, which is a grace of 30 at most.
const GIVE_WAY_MARK: f64 = 30.0;
/// Pods that the less important job gives up.
const GIVEN_UP_MARK: f64 = 2.0;

pub(super) fn run(flexor: &Path, _: u32) -> Result<Vec<Row>> {
    let torch = Torch::ensure()?;
    let workdir = folder()?;
    let root = project_root()?;
    std::os::unix::fs::symlink(root.join("examples"), workdir.path().join("examples"))?;
    let report = root.join("target/bench/local");
    fs::create_dir_all(&report)?;
    let patient = job(&torch, "patient", 4, 900, None)?;
    let options = ["--cpus", CPUS, "--report", report.to_str().context("an odd path")?];
    let run = Run::start(flexor, workdir.path(), &patient, &options)?;
    run.await_answer(LIMIT)?;
    await_running(&run, "patient", 4)?;
    // Long enough to train.
    std::thread::sleep(Duration::from_secs(15));
    let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": "urgent" }, "value": 1000 });
    fs::write(workdir.path().join("urgent.json"), class.to_string())?;
    run.verb(&["apply", "-f", "urgent.json"])?;
    let before = processes(&run, "patient")?;
    fs::write(workdir.path().join("hurried.json"), job(&torch, "hurried", 2, 200, Some("urgent"))?.to_string())?;
    let applied = Instant::now();
    run.verb(&["apply", "-f", "hurried.json"])?;
    // How long the programs that give way take to end is theirs: torchrun takes two seconds.
    let room = await_room(&run, "patient", &before)?;
    await_running(&run, "hurried", 2)?;
    let started = room.elapsed().as_secs_f64();
    let gave_way = room.duration_since(applied).as_secs_f64();
    let left = processes(&run, "patient")?;
    let given_up = before.iter().filter(|process| !left.contains(process)).count();
    let ended = await_gone(&run, "hurried")?;
    await_running(&run, "patient", 4)?;
    let back = ended.elapsed().as_secs_f64();
    run.finish(LIMIT)?;
    eprintln!("the report of the run is in {}", report.display());
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let given_up = given_up as f64;
    Ok(vec![
        Row::within("two jobs, 4 CPUs: until the pods that give way have ended", "s", &[gave_way], GIVE_WAY_MARK)?,
        Row::within(
            "two jobs, 4 CPUs: from then until both pods of the more important one run",
            "s",
            &[started],
            MARK,
        )?,
        Row::within("two jobs, 4 CPUs: pods that the other gives up", "pods", &[given_up], GIVEN_UP_MARK)?,
        Row::within("two jobs, 4 CPUs: until the other has its room back", "s", &[back], MARK)?,
    ])
}

fn job(torch: &Torch, name: &str, replicas: u32, steps: u32, class: Option<&str>) -> Result<Value> {
    let torchrun = torch.python().with_file_name("torchrun");
    let torchrun = torchrun.to_str().context("an odd path")?;
    let mut job = json!({
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": name },
        "spec": {
            "minReplicas": 1,
            "maxReplicas": replicas,
            "replicaSpecs": { "Worker": { "replicas": replicas, "restartPolicy": "ExitCode", "template": { "spec": {
                "containers": [{
                    "name": "elasticjob-worker",
                    "image": "none",
                    "command": [torchrun, "--nproc-per-node=1", "examples/torch-mnist/train.py"],
                    "args": [format!("--checkpoint={name}.pt"), "--checkpoint-every=10", format!("--steps={steps}"),
                        "--epochs=1000", "--sleep=0.05"],
                    "env": [{ "name": "OMP_NUM_THREADS", "value": "1" }],
                    "resources": { "requests": { "cpu": "1" } },
                }],
            } } } },
        },
    });
    if let Some(class) = class {
        job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = class.into();
    }
    Ok(job)
}

/// The unique ids of a job's workers that run.
fn processes(run: &Run, job: &str) -> Result<Vec<String>> {
    let pods: Value = serde_json::from_str(&run.verb(&["get", "pods", "-o", "json"])?)?;
    let pods = pods["items"].as_array().context("no pods")?.clone();
    let start = format!("{job}-worker-");
    let runs = |pod: &&Value| {
        pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&start))
            && pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["phase"] == "Running"
    };
    Ok(pods.iter().filter(runs).filter_map(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned)).collect())
}

fn await_running(run: &Run, job: &str, count: usize) -> Result<()> {
    let until = Instant::now() + LIMIT;
    while processes(run, job)?.len() != count {
        if Instant::now() > until {
            bail!("{job} did not come to {count} running workers: {}", run.verb(&["get", "pods"])?);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Waits until two of these pods have ended, and gives the moment.
fn await_room(run: &Run, job: &str, before: &[String]) -> Result<Instant> {
    let until = Instant::now() + LIMIT;
    loop {
        let here = run.verb(&["get", "pods", "-o", "json"])?;
        if before.iter().filter(|uid| here.contains(uid.as_str())).count() + 2 <= before.len() {
            return Ok(Instant::now());
        }
        if Instant::now() > until {
            bail!("{job} does not give way: {}", run.verb(&["get", "pods"])?);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no worker of the job runs any more, and gives the moment.
fn await_gone(run: &Run, job: &str) -> Result<Instant> {
    await_running(run, job, 0)?;
    Ok(Instant::now())
}
