//! Workers of a job of 16 are deleted one at a time. The clock runs from the DELETED event, before which the name is
//! taken, to the ADDED event of the pod that has the name next.

use std::time::Duration;

use anyhow::{Context, Result};
use flexor_testbed::ClusterConfig;

use super::pod_watch::{ChangeKind, first};
use super::{PodWatch, Row, Setup, World, api, jobs};

const WORKERS: u32 = 16;
const LIMIT: Duration = Duration::from_secs(60);
/// Between a replacement that runs and the next deletion. Statuses are then written below the limit of a job's writes,
/// and no worker is deleted within two seconds of its start, which would count as a crash loop.
const PAUSE: Duration = Duration::from_secs(1);

const HALF_MARK: f64 = 0.02;
const WORST_MARK: f64 = 0.1;

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    setup.runtime.block_on(measure(setup))
}

async fn measure(setup: &Setup) -> Result<Vec<Row>> {
    let world = World::start(setup, ClusterConfig::default()).await?;
    let (namespace, job) = ("replacing", "job");
    world.namespace(namespace).await?;
    let watch = PodWatch::start(&world.api, namespace).await?;
    world.api.post(&jobs::dlrover(namespace), &jobs::all_reduce(job, WORKERS)).await?;
    watch.await_count(LIMIT, 0, ChangeKind::Running, WORKERS as usize + 1).await?;
    let mut times = Vec::new();
    for sample in 0..setup.sizes.get("samples")? {
        tokio::time::sleep(PAUSE).await;
        let pod = jobs::worker(job, sample % WORKERS);
        let position = watch.position();
        world.api.delete(&format!("{}/{pod}", api::pods(namespace))).await?;
        let what = format!("the replacement of {pod}");
        let (deleted, added) = watch
            .find(LIMIT, &what, position, |changes| {
                first(changes, ChangeKind::Running, &pod)?;
                Some((first(changes, ChangeKind::Deleted, &pod)?, first(changes, ChangeKind::Added, &pod)?))
            })
            .await
            .with_context(|| world.operator_log_end())?;
        times.push(added.duration_since(deleted).as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let worst = times[(times.len() * 99 / 100).min(times.len() - 1)];
    Ok(vec![
        Row::within("1 of 16 pods is gone: until its replacement is created, p50", "s", &times, HALF_MARK)?,
        Row::within("1 of 16 pods is gone: until its replacement is created, p99", "s", &[worst], WORST_MARK)?,
    ])
}
