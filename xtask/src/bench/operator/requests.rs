//! The requests of a relaunch, from the API server's audit log: workers of a job of 16 are deleted, and then evicted,
//! one at a time. A deleted pod goes by itself; one that has ended must be deleted by the operator, too.

use std::time::Duration;

use anyhow::{Context, Result};
use flexor_testbed::ClusterConfig;
use serde_json::json;

use super::audit::RequestCounts;
use super::pod_watch::{ChangeKind, first};
use super::{PodWatch, Row, Setup, World, api, jobs};

const WORKERS: u32 = 16;
const LIMIT: Duration = Duration::from_secs(60);
/// Long enough that the statuses of two relaunches are not written together.
const PAUSE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
enum Loss {
    Deleted,
    Evicted,
}

impl Loss {
    fn name(self) -> &'static str {
        match self {
            Self::Deleted => "a deleted pod",
            Self::Evicted => "an evicted pod",
        }
    }
}

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    setup.runtime.block_on(measure(setup))
}

async fn measure(setup: &Setup) -> Result<Vec<Row>> {
    let world = World::start(setup, ClusterConfig::default().auditing_service_accounts()).await?;
    let (namespace, job) = ("requests", "job");
    world.namespace(namespace).await?;
    let watch = PodWatch::start(&world.api, namespace).await?;
    world.api.post(&jobs::dlrover(namespace), &jobs::all_reduce(job, WORKERS)).await?;
    watch.await_count(LIMIT, 0, ChangeKind::Running, WORKERS as usize + 1).await?;
    let relaunches = setup.sizes.get("relaunches")?;
    let mut rows = Vec::new();
    for loss in [Loss::Deleted, Loss::Evicted] {
        world.await_quiet(PAUSE, LIMIT).await?;
        let before = RequestCounts::read(&world.audit_log())?;
        for number in 0..relaunches {
            let pod = jobs::worker(job, number % WORKERS);
            relaunch(&world, &watch, namespace, &pod, loss).await.with_context(|| world.operator_log_end())?;
        }
        let counts = RequestCounts::read(&world.audit_log())?.since(&before);
        eprintln!("{relaunches} relaunches of {}: {}", loss.name(), counts.describe());
        rows.extend(rows_of(loss, relaunches, &counts)?);
    }
    Ok(rows)
}

async fn relaunch(world: &World, watch: &PodWatch, namespace: &str, pod: &str, loss: Loss) -> Result<()> {
    let path = format!("{}/{pod}", api::pods(namespace));
    let position = watch.position();
    match loss {
        Loss::Deleted => world.api.delete(&path).await?,
        Loss::Evicted => {
            let status = json!({ "status": {
                "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
            } });
            world.api.merge(&format!("{path}/status"), &status).await?
        }
    };
    let is_back = |changes: &[super::pod_watch::PodChange]| first(changes, ChangeKind::Running, pod).map(drop);
    watch.find(LIMIT, &format!("the replacement of {pod}"), position, is_back).await?;
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

fn rows_of(loss: Loss, relaunches: u32, counts: &RequestCounts) -> Result<Vec<Row>> {
    let each = |is_so: fn(&str) -> bool| f64::from(counts.count(is_so)) / f64::from(relaunches);
    let row = |what: &str, is_so: fn(&str) -> bool, mark: f64| {
        Row::within(&format!("relaunch of {}: {what}", loss.name()), "requests", &[each(is_so)], mark)
    };
    Ok(vec![
        row("creations of pods", |name| name == "create pods", 1.0)?,
        row("deletions of pods", |name| name == "delete pods", 1.0)?,
        row("status writes", |name| name.ends_with("/status"), 2.0)?,
        row("events", |name| name.ends_with(" events"), 1.0)?,
        row("lists", |name| name.starts_with("list "), 0.0)?,
        row("all requests", |_| true, 5.0)?.for_information(),
    ])
}
