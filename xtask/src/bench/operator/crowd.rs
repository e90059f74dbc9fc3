//! Many pods: how fast they are created, what they cost the operator, and how long it takes to know them again.
//!
//! Jobs are TorchElastic's with an etcd of their user's own, so that pods are all they have. Pods that are not ours
//! stay unscheduled: the operator cannot tell, and the fake nodes have less to do.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flexor_testbed::{ClusterConfig, NodeGroup};
use serde_json::json;

use super::pod_watch::{ChangeKind, PodChange, count, first, rate_of_creation};
use super::{PodWatch, Row, Setup, World, api, bare_client, jobs};
use crate::bench::process_cost::{cpu_seconds, peak_mib, resident_mib};

const PODS_PER_JOB: u32 = 16;
/// How many pods a fake node takes, and how many it is meant to get.
const NODE_TAKES: u32 = 500;
const NODE_GETS: u32 = 400;

const LIMIT: Duration = Duration::from_secs(900);
/// How long the operator must have written nothing before it counts as idle.
const QUIET: Duration = Duration::from_secs(5);
/// How long the idle operator is measured.
const IDLE: Duration = Duration::from_secs(20);
/// Requests in flight when jobs and pods of others are created.
const IN_FLIGHT: usize = 64;

/// Of the bare client's rate.
const PACE_MARK: f64 = 0.8;
const CAUGHT_UP_MARK: f64 = 5.0;
const MEMORY_MARK: f64 = 150.0;
const EMPTY_MEMORY_MARK: f64 = 30.0;
/// Of a core.
const CPU_MARK: f64 = 0.01;

/// The pods of a run.
struct Crowd {
    jobs: u32,
    pods_per_job: u32,
    foreign: u32,
}

pub(super) fn many_jobs(setup: &Setup) -> Result<Vec<Row>> {
    let (jobs, foreign) = (setup.sizes.get("jobs")?, setup.sizes.get("foreign")?);
    let crowd = Crowd { jobs, pods_per_job: PODS_PER_JOB, foreign };
    let name = format!("{jobs} jobs of {PODS_PER_JOB} pods beside {foreign} others");
    setup.runtime.block_on(measure(setup, &crowd, &name))
}

pub(super) fn one_job(setup: &Setup) -> Result<Vec<Row>> {
    let pods = setup.sizes.get("pods")?;
    let crowd = Crowd { jobs: 1, pods_per_job: pods, foreign: 0 };
    setup.runtime.block_on(measure(setup, &crowd, &format!("one job of {pods} pods")))
}

async fn measure(setup: &Setup, crowd: &Crowd, name: &str) -> Result<Vec<Row>> {
    let pods = crowd.jobs * crowd.pods_per_job;
    // The bare client creates as many.
    let nodes = NodeGroup::new("node", (2 * pods).div_ceil(NODE_GETS) as usize).cpu("1000").pods(NODE_TAKES);
    let mut world = World::start(setup, ClusterConfig::with_nodes([nodes])).await?;
    world.await_quiet(QUIET, LIMIT).await?;
    let empty = resident_mib(world.operator_pid()?)?;
    create_foreign(&world, crowd.foreign).await?;
    let bare_rate = bare_client::pods_per_second(&world, pods).await?;
    eprintln!("{name}: a bare client creates {bare_rate:.0} pods/s");

    let namespace = "crowd";
    world.namespace(namespace).await?;
    let watch = PodWatch::start(&world.api, namespace).await?;
    let path = jobs::torchelastic(namespace);
    let cpu_before = cpu_seconds(world.operator_pid()?)?;
    let manifests: Vec<_> = (0..crowd.jobs).map(|job| jobs::fixed(&job_name(job), crowd.pods_per_job)).collect();
    api::all(manifests.iter().map(|job| world.api.post(&path, job)), IN_FLIGHT).await?;
    let all_run = watch.await_count(LIMIT, 0, ChangeKind::Running, pods as usize).await;
    all_run.with_context(|| world.operator_log_end())?;
    let rate = rate_of_creation(&watch.since(0))?;
    eprintln!("{name}: the operator creates {rate:.0} pods/s");

    world.await_quiet(QUIET, LIMIT).await?;
    let cpu_of_pod = (cpu_seconds(world.operator_pid()?)? - cpu_before) * 1000.0 / f64::from(pods);
    let (cpu, resident, peak) = idle_cost(&world).await?;
    let (mut ready, mut caught_up, mut restarted_peak) = (Vec::new(), Vec::new(), peak);
    for repeat in 0..setup.repeats {
        let restart = restart(&mut world, &watch, namespace, crowd, repeat).await?;
        eprintln!("{name}: ready {:.2} s after a restart, caught up after {:.2} s", restart.ready, restart.caught_up);
        ready.push(restart.ready);
        caught_up.push(restart.caught_up);
        restarted_peak = restarted_peak.max(peak_mib(world.operator_pid()?)?);
    }
    let metric = |what: &str| format!("{name}: {what}");
    Ok(vec![
        Row::rate(&metric("creation"), "pods/s", &[rate], "a bare client", &[bare_rate], PACE_MARK)?,
        Row::within(&metric("CPU of the operator for a pod, until it runs"), "ms", &[cpu_of_pod], f64::NAN)?
            .for_information(),
        Row::within(&metric("from a restart until ready"), "s", &ready, CAUGHT_UP_MARK)?.for_information(),
        Row::within(&metric("from a restart until caught up"), "s", &caught_up, CAUGHT_UP_MARK)?,
        Row::within(&metric("memory of the operator"), "MiB", &[resident], MEMORY_MARK)?,
        Row::within(
            &metric("most memory of the operator, also after restarts"),
            "MiB",
            &[restarted_peak],
            MEMORY_MARK,
        )?,
        Row::within(&metric("memory of the operator before, without jobs"), "MiB", &[empty], EMPTY_MEMORY_MARK)?,
        Row::within(&metric("CPU of the operator when nothing happens"), "cores", &[cpu], CPU_MARK)?,
    ])
}

fn job_name(job: u32) -> String {
    format!("job-{job}")
}

async fn create_foreign(world: &World, pods: u32) -> Result<()> {
    let namespace = "foreign";
    world.namespace(namespace).await?;
    let pod = |number: u32| {
        json!({
            "metadata": { "name": format!("web-{number}"), "labels": { "app": "web" } },
            "spec": { "schedulerName": "nobody", "containers": [{ "name": "main", "image": "none" }] },
        })
    };
    let (path, pods): (_, Vec<_>) = (api::pods(namespace), (0..pods).map(pod).collect());
    api::all(pods.iter().map(|pod| world.api.post(&path, pod)), IN_FLIGHT).await
}

/// CPU in cores, memory and most memory in MiB.
async fn idle_cost(world: &World) -> Result<(f64, f64, f64)> {
    let pid = world.operator_pid()?;
    let before = cpu_seconds(pid)?;
    tokio::time::sleep(IDLE).await;
    let cpu = (cpu_seconds(pid)? - before) / IDLE.as_secs_f64();
    Ok((cpu, resident_mib(pid)?, peak_mib(pid)?))
}

/// Seconds after the start of the operator's process.
struct Restart {
    ready: f64,
    /// Ready, and the pod of a job that was scaled in between is created.
    caught_up: f64,
}

/// Kills the operator, scales a job by one, and starts the operator.
async fn restart(world: &mut World, watch: &PodWatch, namespace: &str, crowd: &Crowd, repeat: u32) -> Result<Restart> {
    world.kill_operator()?;
    let (job, before) = (job_name(repeat % crowd.jobs), crowd.pods_per_job + repeat / crowd.jobs);
    let position = watch.position();
    world.api.merge(&format!("{}/{job}", jobs::torchelastic(namespace)), &jobs::resized(before + 1)).await?;
    world.start_operator().await?;
    let ready = world.await_ready().await?;
    let pod = jobs::pod_of_fixed(&job, before);
    let is_created = |changes: &[PodChange]| first(changes, ChangeKind::Added, &pod);
    let created = watch.find(LIMIT, &format!("{pod} after a restart"), position, is_created).await;
    let created = created.with_context(|| world.operator_log_end())?;
    let decided = created.duration_since(world.operator_started()?).as_secs_f64();
    world.await_quiet(QUIET, LIMIT).await?;
    let changes = watch.since(position);
    let (added, deleted) = (count(&changes, ChangeKind::Added), count(&changes, ChangeKind::Deleted));
    ensure!((added, deleted) == (1, 0), "the restarted operator created {added} pods and deleted {deleted}");
    Ok(Restart { ready, caught_up: ready.max(decided) })
}
