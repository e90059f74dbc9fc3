//! Requests to the API server by their paths, as JSON.

use std::future::Future;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;

/// A client of the API server.
#[derive(Clone)]
pub(in crate::bench) struct Api {
    client: Client,
}

impl Api {
    pub(in crate::bench) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(in crate::bench) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(in crate::bench) async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, "application/json", None).await
    }

    pub(in crate::bench) async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", Some(object)).await
    }

    pub(in crate::bench) async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    pub(in crate::bench) async fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, "application/json", None).await
    }

    /// The answer as it is, for instance the log of a pod.
    pub(in crate::bench) async fn text(&self, path: &str) -> Result<String> {
        let request = Request::builder().method(Method::GET).uri(path).body(Vec::new())?;
        self.client.request_text(request).await.with_context(|| format!("GET {path}"))
    }

    async fn send(&self, method: Method, path: &str, format: &str, body: Option<&Value>) -> Result<Value> {
        let what = format!("{method} {path}");
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", format).body(bytes)?;
        self.client.request(request).await.with_context(|| what)
    }
}

/// Runs requests with this many in flight, and ends at the first that fails.
pub(in crate::bench) async fn all<F>(requests: impl IntoIterator<Item = F>, in_flight: usize) -> Result<()>
where
    F: Future<Output = Result<Value>>,
{
    stream::iter(requests).buffer_unordered(in_flight).try_for_each(|_| async { Ok(()) }).await
}

/// The path of a namespace's pods.
pub(in crate::bench) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
