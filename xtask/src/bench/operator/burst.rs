//! 30 of a job's 32 workers are deleted at once. The marked clock runs from the last DELETED event to the last ADDED
//! event; the other one from the first request to delete, with the time that the fake nodes take to end their pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flexor_testbed::ClusterConfig;

use super::pod_watch::{ChangeKind, PodChange};
use super::{PodWatch, Row, Setup, World, api, jobs};

const WORKERS: u32 = 32;
const LOST: u32 = 30;
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than a pod must run so that its loss is no crash loop.
const PAUSE: Duration = Duration::from_secs(5);

const MARK: f64 = 1.0;

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    setup.runtime.block_on(measure(setup))
}

async fn measure(setup: &Setup) -> Result<Vec<Row>> {
    let world = World::start(setup, ClusterConfig::default()).await?;
    let (namespace, job) = ("burst", "job");
    world.namespace(namespace).await?;
    let watch = PodWatch::start(&world.api, namespace).await?;
    world.api.post(&jobs::dlrover(namespace), &jobs::all_reduce(job, WORKERS)).await?;
    watch.await_count(LIMIT, 0, ChangeKind::Running, WORKERS as usize + 1).await?;
    let (mut created, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..setup.repeats {
        tokio::time::sleep(PAUSE).await;
        let position = watch.position();
        let paths: Vec<String> =
            (0..LOST).map(|number| format!("{}/{}", api::pods(namespace), jobs::worker(job, number))).collect();
        let requested = Instant::now();
        api::all(paths.iter().map(|path| world.api.delete(path)), LOST as usize).await?;
        let found = watch.await_count(LIMIT, position, ChangeKind::Running, LOST as usize).await;
        found.with_context(|| world.operator_log_end())?;
        let (deleted, added) = last_changes(&watch.since(position)).context("a pod was not replaced")?;
        // Replacements of pods that went first may all be there before the last pod is gone.
        created.push(added.saturating_duration_since(deleted).as_secs_f64());
        whole.push(added.duration_since(requested).as_secs_f64());
    }
    Ok(vec![
        Row::within("30 of 32 pods are gone: until all are created again", "s", &created, MARK)?,
        Row::within(
            "30 of 32 pods are deleted: from the first request until all are created again",
            "s",
            &whole,
            MARK,
        )?
        .for_information(),
    ])
}

/// When the last of the lost pods was gone, and when the last replacement was there. None if a pod was not replaced.
fn last_changes(changes: &[PodChange]) -> Option<(Instant, Instant)> {
    let times = |kind: ChangeKind| -> BTreeMap<&str, Instant> {
        changes.iter().filter(|change| change.kind == kind).map(|change| (change.pod.as_str(), change.at)).collect()
    };
    let (deleted, added) = (times(ChangeKind::Deleted), times(ChangeKind::Added));
    let is_replaced = deleted.keys().all(|pod| added.contains_key(pod));
    (is_replaced && deleted.len() == LOST as usize).then_some(())?;
    Some((*deleted.values().max()?, *added.values().max()?))
}
