//! The connection of commands that work on a Kubernetes cluster, with the credentials of the user.

use std::error::Error;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::exit::Refused;

/// Which cluster and which namespace.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// File with the cluster's address and credentials [default: KUBECONFIG, ~/.kube/config, or the pod's own]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace [default: that of the file's context, else default]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// A client, and the namespace to work in.
pub struct Connection {
    pub client: Client,
    pub namespace: String,
}

impl ClusterArgs {
    /// Reads the configuration. Nothing is sent yet.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let config = match &self.kubeconfig {
            Some(file) => of_file(file).await.map_err(|error| Refused(anyhow!("{}: {error}", file.display())))?,
            None => Config::infer().await.map_err(|error| {
                let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                Refused(anyhow!("no cluster is configured: {why}; set KUBECONFIG or give --kubeconfig"))
            })?,
        };
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("the cluster's configuration cannot be used")?;
        Ok(Connection { client, namespace })
    }
}

async fn of_file(file: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await
}

/// An error of a request, as the API server words it. What the server refuses is the user's to correct.
pub fn refusal(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) => Refused(anyhow!("{}", status.message)).into(),
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => anyhow::Error::new(other).context("the cluster cannot be reached"),
    }
}

/// Runs a command that works on a cluster.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
