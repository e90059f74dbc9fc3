//! A cluster of its own with the operator in it, under the service account of its overlay.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flexor_testbed::{Cluster, ClusterConfig, ClusterProgram};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Setup;
use super::api::Api;

const OVERLAY: &str = "deploy/default";
const NAMESPACE: &str = "flexor-system";
const ACCOUNT: &str = "flexor-operator";

const LIMIT: Duration = Duration::from_secs(120);
/// How often the state of the operator is asked for. It bounds the error of times until it is ready.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// A running cluster and, most of the time, an operator in it.
pub(super) struct World {
    // Dropped before the cluster that it runs in.
    operator: Option<RunningOperator>,
    pub(super) api: Api,
    kubeconfig: PathBuf,
    flexor: PathBuf,
    cluster: Cluster,
}

struct RunningOperator {
    program: ClusterProgram,
    started: Instant,
    http: SocketAddr,
}

impl World {
    /// Starts the cluster, installs the overlay, starts the operator, and waits until it is ready.
    pub(super) async fn start(setup: &Setup, config: ClusterConfig) -> Result<Self> {
        let cluster = Cluster::start(config).await?;
        let overlay = setup.root.join(OVERLAY);
        run(cluster.kubectl([Path::new("apply"), Path::new("-k"), &overlay]))?;
        run(cluster.kubectl(["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]))?;
        let kubeconfig = cluster.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
        let api = Api::new(cluster.client().await?);
        let mut world = Self { operator: None, api, kubeconfig, flexor: setup.flexor.clone(), cluster };
        world.start_operator().await?;
        world.await_ready().await?;
        Ok(world)
    }

    /// Starts the operator, which must not be running.
    pub(super) async fn start_operator(&mut self) -> Result<()> {
        // Nothing runs in the pods of fake nodes.
        let args = ["operator", "--http", "127.0.0.1:0", "--image", "flexor:bench", "--no-master-feeds"];
        let started = Instant::now();
        let program = self.cluster.run(&self.flexor, args, &self.kubeconfig)?;
        let http = loop {
            if let Some(http) = address(&program.log()) {
                break http;
            }
            ensure!(started.elapsed() < LIMIT, "the operator serves no probes: {}", program.log());
            tokio::time::sleep(ASK_EVERY).await;
        };
        self.operator = Some(RunningOperator { program, started, http });
        Ok(())
    }

    /// Waits until the operator is ready; returns the seconds since its start.
    pub(super) async fn await_ready(&self) -> Result<f64> {
        let operator = self.operator()?;
        while !self.ask("/ready").await?.starts_with("HTTP/1.1 200") {
            if operator.started.elapsed() > LIMIT {
                bail!("the operator is not ready: {}", operator.program.log());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(operator.started.elapsed().as_secs_f64())
    }

    /// When the operator was started.
    pub(super) fn operator_started(&self) -> Result<Instant> {
        Ok(self.operator()?.started)
    }

    /// Ends the operator with SIGKILL.
    pub(super) fn kill_operator(&mut self) -> Result<()> {
        self.operator.take().context("the operator does not run")?.program.kill()
    }

    pub(super) fn operator_pid(&self) -> Result<u32> {
        self.operator()?.program.pid().context("the operator has ended")
    }

    /// What the operator has printed, for an error.
    pub(super) fn operator_log_end(&self) -> String {
        let log = self.operator.as_ref().map(|operator| operator.program.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until the operator has written no status for this long.
    pub(super) async fn await_quiet(&self, quiet: Duration, limit: Duration) -> Result<()> {
        let (began, mut last, mut since) = (Instant::now(), self.status_writes().await?, Instant::now());
        while since.elapsed() < quiet {
            ensure!(began.elapsed() < limit, "the operator still writes statuses after {limit:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.status_writes().await?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    async fn status_writes(&self) -> Result<u64> {
        let metrics = self.ask("/metrics").await?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("flexor_operator_status_writes_total "));
        line.and_then(|number| number.trim().parse().ok()).with_context(|| format!("the metrics are {metrics}"))
    }

    /// A client with the rights of the operator, to which the API server's fair queueing applies as to the operator.
    pub(super) async fn client_as_operator(&self) -> Result<Api> {
        Ok(Api::new(self.cluster.client_of(&self.kubeconfig).await?))
    }

    /// Makes a namespace in which pods can be created.
    pub(super) async fn namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.api.post("/api/v1/namespaces", &namespace).await?;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        let began = Instant::now();
        while let Err(error) = self.api.get(&account).await {
            if began.elapsed() > LIMIT {
                return Err(error.context(format!("namespace {name} gets no service account")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.cluster.audit_log()
    }

    fn operator(&self) -> Result<&RunningOperator> {
        self.operator.as_ref().context("the operator does not run")
    }

    /// An answer of the operator's HTTP port, with its head.
    async fn ask(&self, path: &str) -> Result<String> {
        let mut stream = self.cluster.connect(self.operator()?.http).await?;
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n").as_bytes())
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

/// The address of the probes, from the log.
fn address(log: &str) -> Option<SocketAddr> {
    let line = log.lines().find(|line| line.contains("probes and metrics"))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("http=")?.parse().ok())
}

fn run(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_the_log() {
        let log = "2026-11-18T08:00:00Z  INFO probes and metrics http=127.0.0.1:40123\n";
        assert_eq!(address(log), Some(([127, 0, 0, 1], 40123).into()));
        assert_eq!(address("2026-11-18T08:00:00Z  INFO serving kind=\"ElasticJob\""), None);
    }
}
