//! One namespace per test: tests share a cluster but no objects.

use std::{
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

use super::Cluster;
use crate::condition::await_condition;

const READY_DEADLINE: Duration = Duration::from_secs(30);

/// The longest hint that leaves room for the number in a name of 63 characters.
const LONGEST_HINT: usize = 50;

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// A namespace of one test. Dropping it asks for its deletion, so that its pods leave the shared nodes.
pub struct TestNamespace<'a> {
    cluster: &'a Cluster,
    client: Client,
    name: String,
}

impl<'a> TestNamespace<'a> {
    pub(super) async fn create(cluster: &'a Cluster, hint: &str) -> anyhow::Result<Self> {
        let name = unique_name(hint, COUNT.fetch_add(1, Ordering::Relaxed));
        let client = cluster.client().await?;
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let all: Api<Namespace> = Api::all(client.clone());
        all.create(&PostParams::default(), &namespace).await.with_context(|| format!("create namespace {name}"))?;
        let made = Self { cluster, client, name };
        let accounts: Api<ServiceAccount> = made.api();
        let what = format!("the ServiceAccount of namespace {}", made.name);
        await_condition(READY_DEADLINE, accounts, "default", &what, |account| account.is_some()).await?;
        Ok(made)
    }

    /// The namespace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// A client with the administrator's rights, shared by all that this test does.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The objects of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.name)
    }

    /// kubectl with this namespace as its default.
    pub fn kubectl<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> std::process::Command {
        let mut command = self.cluster.kubectl(["--namespace", &self.name]);
        command.args(args);
        command
    }
}

impl Drop for TestNamespace<'_> {
    fn drop(&mut self) {
        // `--raw` spares the discovery; a cluster that the test has broken may well refuse.
        let _ = self
            .cluster
            .kubectl(["delete", "--request-timeout=5s", "--raw", &format!("/api/v1/namespaces/{}", self.name)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// A valid namespace name from the hint of the test.
fn unique_name(hint: &str, number: usize) -> String {
    let plain: String = hint
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(LONGEST_HINT)
        .collect();
    match plain.trim_matches('-') {
        "" => format!("test-{number}"),
        plain => format!("{plain}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_whatever_the_hint() {
        assert_eq!(unique_name("a_preempted_worker", 3), "a-preempted-worker-3");
        assert_eq!(unique_name("__", 4), "test-4");
        assert!(unique_name(&"x".repeat(200), 1_000_000).len() <= 63);
    }
}
