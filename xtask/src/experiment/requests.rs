//! Requests to the API server by their paths, as JSON.

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

/// The jobs of the experiment.
pub(super) const JOBS: &str = "/apis/paddlepaddle.org/v1/namespaces/default/trainingjobs";
/// Their pods, and those of Nginx.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
/// Nginx.
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(super) async fn get(client: &Client, path: &str) -> Result<Value> {
    send(client, Method::GET, path, "application/json", None).await
}

pub(super) async fn create(client: &Client, path: &str, object: &Value) -> Result<()> {
    send(client, Method::POST, path, "application/json", Some(object)).await.map(drop)
}

/// Changes an object by a merge patch.
pub(super) async fn merge(client: &Client, path: &str, patch: &Value) -> Result<()> {
    send(client, Method::PATCH, path, "application/merge-patch+json", Some(patch)).await.map(drop)
}

/// Changes an object by a merge patch, if it is there.
pub(super) async fn merge_if_there(client: &Client, path: &str, patch: &Value) -> Result<()> {
    let is_gone = |error: &anyhow::Error| matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == 404);
    match merge(client, path, patch).await {
        Err(error) if is_gone(&error) => Ok(()),
        other => other,
    }
}

async fn send(client: &Client, method: Method, path: &str, format: &str, body: Option<&Value>) -> Result<Value> {
    let what = format!("{method} {path}");
    let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", format).body(bytes)?;
    client.request(request).await.with_context(|| what)
}
