//! The cluster of the experiment: nodes, standing load, the operator under its own account, and the online service.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flexor_sched::sim::Experiment;
use flexor_testbed::stages::PodTimes;
use flexor_testbed::{Cluster, ClusterConfig, ClusterProgram, NodeGroup};
use kube::Client;

use super::pods::Pods;
use super::{manifests, requests};

const OVERLAY: &str = "deploy/edl";
const NAMESPACE: &str = "paddlecloud";
const CONTROLLER: &str = "training-job-controller";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets";

/// How long each step may take.
const LIMIT: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A cluster that waits for the first job.
pub(super) struct Stage {
    // Dropped before the cluster that it runs in.
    operator: ClusterProgram,
    pub(super) pods: Pods,
    pub(super) client: Client,
    _cluster: Cluster,
}

impl Stage {
    pub(super) async fn set(script: &Experiment, root: &Path, flexor: &Path) -> Result<Self> {
        eprintln!("starting a cluster of {} nodes with {} cores", script.nodes.len(), script.cores());
        let cluster = Cluster::start(config(script)).await?;
        let client = cluster.client().await?;
        let jobs = (0..script.jobs.len()).map(manifests::job_name).collect();
        let pods = Pods::watch(&client, jobs).await?;
        let overlay = root.join(OVERLAY);
        succeed(cluster.kubectl([Path::new("apply"), Path::new("-k"), &overlay]))?;
        succeed(cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]))?;
        // Nothing runs in the pods of fake nodes: the operator is a process, and its pod would only take room.
        let deployment = format!("deployment/{CONTROLLER}");
        succeed(cluster.kubectl(["scale", "--namespace", NAMESPACE, &deployment, "--replicas=0"]))?;
        let operator = start_operator(&cluster, flexor).await?;
        requests::create(&client, DAEMON_SETS, &manifests::standing_load(script.standing_load)).await?;
        let mut stage = Self { operator, pods, client, _cluster: cluster };
        stage.await_settled("the standing load", |pods| pods.running_others() == script.nodes.len()).await?;
        if let Some(service) = &script.online {
            requests::create(&stage.client, requests::DEPLOYMENTS, &manifests::online(service)).await?;
            let wanted = service.replicas;
            stage.await_settled("the online service", |pods| pods.running_online() == wanted).await?;
        }
        Ok(stage)
    }

    /// An error if the operator has ended or the watch has broken.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.operator.ended() {
            bail!("the operator has ended with {status}");
        }
        self.pods.check_alive()
    }

    /// The end of what the operator has printed.
    pub(super) fn operator_log_end(&self) -> String {
        let log = self.operator.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    async fn await_settled(&mut self, what: &str, is_settled: impl Fn(&Pods) -> bool) -> Result<()> {
        let began = Instant::now();
        while !is_settled(&self.pods) {
            self.check_alive()?;
            ensure!(began.elapsed() < LIMIT, "waited {LIMIT:?} for {what} to run; {}", self.pods.in_words());
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// The nodes of the experiment, and the times of its pods.
fn config(script: &Experiment) -> ClusterConfig {
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    script.nodes.iter().for_each(|cores| *sizes.entry(*cores).or_default() += 1);
    let group = |(cores, count): (u32, usize)| {
        NodeGroup::new(format!("node-of-{cores}"), count).cpu(cores.to_string()).memory("103Gi")
    };
    ClusterConfig::with_nodes(sizes.into_iter().map(group)).with_pod_times(PodTimes {
        start: Some(Duration::from_secs(script.start_latency.into())),
        stop: Some(Duration::from_secs(script.grace.into())),
    })
}

/// Starts the operator under the account of its overlay, and waits until it is served.
async fn start_operator(cluster: &Cluster, flexor: &Path) -> Result<ClusterProgram> {
    let kubeconfig = cluster.kubeconfig_of(NAMESPACE, CONTROLLER).await?;
    // Masters on fake nodes have nothing to tell.
    let args = ["operator", "--http", "127.0.0.1:0", "--image", "flexor:experiment", "--no-master-feeds"];
    let mut operator = cluster.run(flexor, args, &kubeconfig)?;
    let began = Instant::now();
    while !operator.log().contains("probes and metrics") {
        let has_ended = operator.ended().is_some();
        ensure!(!has_ended && began.elapsed() < LIMIT, "the operator serves no probes: {}", operator.log());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(operator)
}

fn succeed(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, complaint.trim());
    Ok(())
}
