//! Programs under test inside a cluster: started in its network, with the rights of a service account, ended with their
//! guard or with the cluster.

use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context as _;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{Api, api::PostParams, config::Kubeconfig};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use super::Cluster;
use crate::keeper::RunningProgram;

/// A running program; dropping it ends it.
#[derive(Debug)]
pub struct ClusterProgram {
    running: Option<RunningProgram>,
    log: PathBuf,
}

impl Cluster {
    /// Starts a program in the cluster's network with this kubeconfig.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        kubeconfig: &Path,
    ) -> anyhow::Result<ClusterProgram> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = self.folder().join("log").join(format!("program-{number}.log"));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let sandbox = self.keeper.sandbox();
        let mut command = sandbox.owned_command(program);
        command.args(args).env("KUBECONFIG", kubeconfig).stdout(file.try_clone()?).stderr(file);
        let running =
            RunningProgram::spawn(sandbox, &mut command).with_context(|| format!("start {}", program.display()))?;
        Ok(ClusterProgram { running: Some(running), log })
    }

    /// A kubeconfig with the rights of a service account.
    pub async fn kubeconfig_of(&self, namespace: &str, account: &str) -> anyhow::Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let request = TokenRequest::default();
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let token = answer.status.context("the API server made no token")?.token;
        let admin = Kubeconfig::read_from(&self.kubeconfig)?;
        let cluster = admin.clusters.first().and_then(|named| named.cluster.as_ref()).context("no cluster")?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u", "namespace": namespace } }],
            "clusters": [{ "name": "c", "cluster": cluster }],
            "users": [{ "name": "u", "user": { "token": token } }],
        });
        let path = self.folder().join(format!("kubeconfig-{namespace}-{account}"));
        fs::write(&path, config.to_string()).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

impl ClusterProgram {
    /// Everything that it printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id, as the host counts, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().and_then(RunningProgram::pid)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid().context("it has ended")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Its exit status, if it has exited.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.running.as_mut().and_then(RunningProgram::ended)
    }

    /// Ends it with SIGKILL and waits for its end.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.running.take().map_or(Ok(()), RunningProgram::kill).context("kill it")
    }
}

impl Drop for ClusterProgram {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // The cluster ends it otherwise.
            let _ = running.kill();
        }
    }
}
