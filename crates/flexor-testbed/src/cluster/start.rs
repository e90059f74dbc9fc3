//! Starts a cluster: builds the tools, makes a sandbox, starts the programs in order, and waits until the cluster is
//! usable.
//!
//! Every error names the component and carries the end of its log, because the log is removed with the cluster's
//! folder.

use std::{collections::BTreeSet, future::Future, sync::Mutex, time::Duration};

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};

use super::{Cluster, ClusterConfig};
use crate::{
    condition::await_condition,
    control_plane::{Component, ControlPlane, NodeKind},
    keeper::{Keeper, Sandbox},
    nodes,
    real_nodes::{NodeTools, RealNodes},
    tools::Tools,
};

/// How long each step may take; an idle machine needs two to four seconds.
const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// The polling interval for states without a watch.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A free port may be taken by another process before our server binds it.
const PORT_ATTEMPTS: usize = 3;

pub(super) async fn start(config: ClusterConfig) -> anyhow::Result<Cluster> {
    // First what a machine may lack; only then is anything built.
    let node_tools = match config.real_nodes {
        0 => None,
        _ => Some(tokio::task::spawn_blocking(NodeTools::ensure).await.context("prepare the tools of nodes")??),
    };
    let tools = tokio::task::spawn_blocking(Tools::ensure).await.context("prepare the tools")??;
    let mut attempt = 1;
    loop {
        let cluster = prepare(tools.clone(), node_tools.clone(), &config)?;
        match bring_up(&cluster, &config).await {
            Ok(()) => return Ok(cluster),
            Err(error) if attempt < PORT_ATTEMPTS && lost_a_port(&cluster, &error) => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Waits until the API server reports that it is ready.
pub(super) async fn await_api_server(cluster: &Cluster) -> anyhow::Result<()> {
    let client = cluster.client().await?;
    while_alive(cluster, "the API server to be ready", async {
        while !is_ready(&client).await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    })
    .await
}

fn prepare(tools: Tools, node_tools: Option<NodeTools>, config: &ClusterConfig) -> anyhow::Result<Cluster> {
    let keeper = Keeper::start(config.isolation)?;
    let node_kind = if node_tools.is_some() { NodeKind::Real } else { NodeKind::Fake };
    let mut plane = ControlPlane::prepare(tools.clone(), &keeper, config.audit, node_kind, config.pod_times)?;
    // The API server starts beside the nodes' container runtimes.
    for component in [Component::Etcd, Component::ApiServer] {
        plane.start(component)?;
    }
    let prepare_nodes = |node_tools| {
        RealNodes::prepare(node_tools, &keeper, config.real_nodes, &config.node_mounts, plane.kubeconfig_of_nodes())
    };
    let real_nodes = node_tools.map(prepare_nodes).transpose()?;
    let kubeconfig = plane.kubeconfig();
    Ok(Cluster { plane: Mutex::new(plane), keeper, real_nodes, tools, kubeconfig })
}

async fn bring_up(cluster: &Cluster, config: &ClusterConfig) -> anyhow::Result<()> {
    await_api_server(cluster).await?;
    for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
        cluster.plane().start(component)?;
    }
    if let Some(nodes) = &cluster.real_nodes {
        nodes.start()?;
    }
    let client = cluster.client().await?;
    let real_names: BTreeSet<String> = cluster.real_nodes().iter().map(|node| node.name().to_owned()).collect();
    while_alive(cluster, "nodes and the default ServiceAccount", async {
        nodes::add(&client, &config.nodes).await?;
        nodes::await_ready(&client, &real_names).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        let what = "the ServiceAccount of namespace default";
        await_condition(STEP_DEADLINE, accounts, "default", what, |account| account.is_some()).await?;
        Ok(())
    })
    .await
}

/// Waits for `step` as long as all components live and the time is not over.
async fn while_alive(
    cluster: &Cluster,
    what: &str,
    step: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let death = async {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let alive = cluster.plane().check_alive();
            if let Err(error) = alive.and_then(|()| cluster.real_nodes.iter().try_for_each(RealNodes::check_alive)) {
                return error;
            }
        }
    };
    tokio::select! {
        done = step => done.map_err(|error| anyhow!("{error:#}\n{}", logs(cluster))),
        error = death => Err(error),
        () = tokio::time::sleep(STEP_DEADLINE) => {
            Err(anyhow!("waited {STEP_DEADLINE:?} for {what}\n{}", logs(cluster)))
        }
    }
}

async fn is_ready(client: &Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new());
    client.request_text(request.expect("a constant path is valid")).await.is_ok()
}

fn logs(cluster: &Cluster) -> String {
    let plane = cluster.plane();
    let tails =
        Component::ALL.map(|component| format!("the log of {component} ends with\n{}", plane.log_tail(component)));
    let nodes = cluster.real_nodes.as_ref().map(RealNodes::log_tails).unwrap_or_default();
    format!("{}\n{nodes}", tails.join("\n"))
}

fn lost_a_port(cluster: &Cluster, error: &anyhow::Error) -> bool {
    matches!(cluster.keeper.sandbox(), Sandbox::Loopback { .. })
        && format!("{error:#}").contains("address already in use")
}
