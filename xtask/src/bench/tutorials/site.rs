//! A cluster with real nodes, the images of the tutorials, and DLRover's overlay installed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flexor_image::Image;
use flexor_testbed::images::{self, TORCH_FOLDER};
use flexor_testbed::{Cluster, ClusterConfig, NodeTools, Torch};
use serde_json::{Value, json};

use crate::bench::operator::api::{Api, pods};
use crate::image::build::static_flexor;
use crate::tree::project_root;

const NODES: usize = 3;
const OVERLAY: &str = "deploy/dlrover";
/// Where the operator and the jobs are.
pub(super) const NAMESPACE: &str = "dlrover";
const CONTROLLER: &str = "deployment/dlrover-controller-manager";
const LIMIT: Duration = Duration::from_secs(180);
/// How often something is asked for. It bounds the error of the times.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The running cluster.
pub(super) struct Site {
    pub(super) api: Api,
    pub(super) flexor: Image,
    cluster: Cluster,
}

impl Site {
    pub(super) async fn start() -> Result<Self> {
        let root = project_root()?;
        let flexor = images::flexor(&static_flexor(&root)?)?;
        NodeTools::ensure()?;
        images::prepare()?;
        let torch = Torch::ensure()?;
        let packages = images::torch_packages(&torch).context("needs Python 3.11 as `python3`")?;
        let config = ClusterConfig::with_nodes([]).and_real_nodes(NODES).with_node_mount(packages, TORCH_FOLDER);
        let cluster = Cluster::start(config).await?;
        cluster.add_image(&flexor, "flexor:latest")?;
        cluster.add_image(&images::torch(&images::PROGRAMS)?, "torch-mnist:latest")?;
        let site = Self { api: Api::new(cluster.client().await?), flexor, cluster };
        site.apply(&root.join(OVERLAY), "-k")?;
        site.kubectl(&["rollout", "status", CONTROLLER, "--timeout=120s"])?;
        site.apply(&root.join("tutorials/dlrover/dlrover/examples/pvc-nas.yaml"), "-f")?;
        Ok(site)
    }

    /// `kubectl` in the namespace of the jobs; returns what it prints.
    pub(super) fn kubectl(&self, words: &[&str]) -> Result<String> {
        printed(self.cluster.kubectl(["--namespace", NAMESPACE].iter().chain(words)))
    }

    fn apply(&self, path: &Path, form: &str) -> Result<()> {
        let words: [PathBuf; 3] = ["apply".into(), form.into(), path.to_owned()];
        printed(self.cluster.kubectl(words)).map(|_| ())
    }

    /// The last lines of the operator's log.
    pub(super) fn log(&self) -> String {
        self.kubectl(&["logs", CONTROLLER, "--tail=20"]).unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Creates an object of DLRover's API group.
    pub(super) async fn create(&self, plural: &str, object: &Value) -> Result<()> {
        self.api.post(&path(plural), object).await.map(|_| ())
    }

    /// Waits for a phase of such an object.
    pub(super) async fn await_phase(&self, plural: &str, name: &str, phase: &str) -> Result<()> {
        let path = format!("{}/{name}", path(plural));
        self.eventually(
            &format!("{name}: {phase}"),
            async || Ok(self.api.get(&path).await?["status"]["phase"] == phase),
        )
        .await
    }

    /// Deletes a job and waits until its pods are gone.
    pub(super) async fn delete_job(&self, name: &str) -> Result<()> {
        self.api.delete(&format!("{}/{name}", path("elasticjobs"))).await?;
        let path = format!("{}?labelSelector=elasticjob-name={name}", pods(NAMESPACE));
        let gone = async || Ok(self.api.get(&path).await?["items"].as_array().is_some_and(Vec::is_empty));
        self.eventually(&format!("the pods of {name} to go"), gone).await
    }

    /// Waits for words in a pod's log.
    pub(super) async fn await_log(&self, pod: &str, words: &str) -> Result<()> {
        let path = format!("{}/{pod}/log?container=main", pods(NAMESPACE));
        // A container that does not run yet has no log.
        let shows = async || Ok(self.api.text(&path).await.is_ok_and(|log| log.contains(words)));
        self.eventually(&format!("{words} in the log of {pod}"), shows).await
    }

    pub(super) async fn eventually(&self, what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !is_so().await? {
            ensure!(began.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// A connection to a port of a pod.
    pub(super) async fn connect(&self, address: SocketAddr) -> Result<tokio::net::TcpStream> {
        self.cluster.connect(address).await.with_context(|| format!("cannot connect to {address}"))
    }
}

/// The path of objects of DLRover's API group.
fn path(plural: &str) -> String {
    format!("/apis/elastic.iml.github.io/v1alpha1/namespaces/{NAMESPACE}/{plural}")
}

/// An object of DLRover's API group.
pub(super) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": spec,
    })
}

fn printed(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
