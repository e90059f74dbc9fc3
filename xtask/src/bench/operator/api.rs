//! Requests to the API server by their paths, as JSON.

use std::future::Future;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

/// A client of the API server.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
}

impl Api {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "application/json", None).await
    }

    pub(super) async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", Some(object)).await
    }

    pub(super) async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, "application/json", None).await
    }

    async fn send(&self, method: Method, path: &str, format: &str, body: Option<&Value>) -> Result<Value> {
        let what = format!("{method} {path}");
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", format).body(bytes)?;
        self.client.request(request).await.with_context(|| what)
    }
}

/// Runs requests with this many in flight, and ends at the first that fails.
pub(super) async fn all<F>(requests: impl IntoIterator<Item = F>, in_flight: usize) -> Result<()>
where
    F: Future<Output = Result<Value>>,
{
    stream::iter(requests).buffer_unordered(in_flight).try_for_each(|_| async { Ok(()) }).await
}

/// The path of a namespace's pods.
pub(super) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
