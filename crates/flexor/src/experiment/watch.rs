//! `flexor experiment watch`: asks the cluster every five seconds.

use std::time::{Duration, Instant};

use flexor_dialects::edl::TrainingJob;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use tokio::time::MissedTickBehavior;

use super::WatchArgs;
use super::collector::Collector;
use super::observation::{self, Observation};
use crate::exit::Exit;
use crate::kubernetes::{Connection, block_on, refusal};
use crate::{output, signals};

const INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    block_on(async {
        let mut termination = signals::terminated()?;
        let cluster = args.cluster.connect().await?;
        tokio::select! {
            exit = termination.wait() => Ok(exit),
            watched = watch(args, &cluster) => watched.map(|()| Exit::Success),
        }
    })
}

async fn watch(args: &WatchArgs, cluster: &Connection) -> anyhow::Result<()> {
    let mut collector = Collector::new(args.case, &args.jobs);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = Instant::now();
    let mut has_begun = false;
    while !collector.is_complete() {
        ticks.tick().await;
        let at = began.elapsed();
        match observe(cluster).await {
            Ok(observation) => {
                if !has_begun {
                    output::text(&collector.heading())?;
                }
                has_begun = true;
                output::text(&collector.observe(at, &observation))?;
            }
            // An API server that restarts is no end of an experiment that takes hours.
            Err(error) if has_begun => output::note(&format!("warning: {}", output::with_causes(&error))),
            Err(error) => return Err(error),
        }
    }
    output::text(&collector.summary())
}

async fn observe(cluster: &Connection) -> anyhow::Result<Observation> {
    let Connection { client, namespace } = cluster;
    // From the API server's cache: every pod of the cluster is listed each time.
    let all = ListParams::default().match_any();
    let nodes = Api::<Node>::all(client.clone()).list(&all).await.map_err(refusal)?;
    let pods = Api::<Pod>::all(client.clone()).list(&all).await.map_err(refusal)?;
    let jobs = Api::<TrainingJob>::namespaced(client.clone(), namespace).list(&all).await.map_err(refusal)?;
    Ok(observation::of(&nodes.items, &pods.items, &jobs.items, namespace))
}
