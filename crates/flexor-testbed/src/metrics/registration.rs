//! Tells the API server who answers for `metrics.k8s.io`.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::{api::core::v1::Service, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use kube::{Api, Client, api::PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::{GROUP, VERSION};
use crate::condition::await_condition;

/// Where the server is. A service of this type needs no kube-proxy.
pub(super) const HOST: &str = "127.0.0.1";
const SERVICE: &str = "testbed-metrics";
const NAMESPACE: &str = "kube-system";

const DEADLINE: Duration = Duration::from_secs(60);

/// Registers the server at a port and waits until the API server has reached it.
pub(super) async fn register(client: &Client, port: u16) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let service = json!({ "metadata": { "name": SERVICE }, "spec": { "type": "ExternalName", "externalName": HOST } });
    services.create(&PostParams::default(), &object(service)?).await.context("create the service of metrics")?;
    let registrations: Api<APIService> = Api::all(client.clone());
    let name = format!("{VERSION}.{GROUP}");
    let registration = json!({
        "metadata": { "name": name },
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": { "namespace": NAMESPACE, "name": SERVICE, "port": port },
        },
    });
    registrations.create(&PostParams::default(), &object(registration)?).await.context("register the metrics")?;
    await_condition(DEADLINE, registrations, &name, "the API server to reach it", is_available).await?;
    Ok(())
}

fn is_available(registration: Option<&APIService>) -> bool {
    let status = registration.and_then(|registration| registration.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
}

fn object<K: DeserializeOwned>(value: Value) -> anyhow::Result<K> {
    serde_json::from_value(value).context("an object of the testbed is not well-formed")
}
