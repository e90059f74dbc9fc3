//! The API of `metrics.k8s.io`, as far as autoscalers and `kubectl top pods` use it.

use http::{Request, Response, StatusCode};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{Client, ResourceExt as _, api::ObjectList, client::Body};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::usage;

pub(super) const GROUP: &str = "metrics.k8s.io";
pub(super) const VERSION: &str = "v1beta1";

/// The time that a figure is about. A pod counts once it has been ready for so long.
const WINDOW: &str = "1s";

/// Answers a request that the API server has passed on.
pub(super) async fn answer<B>(client: &Client, request: &Request<B>) -> Response<Body> {
    let (status, answer) = match Asked::of(request.uri().path()) {
        Some(Asked::Resources) => (StatusCode::OK, resources()),
        Some(Asked::Pods(namespace)) => match pods(client, namespace, request.uri().query()).await {
            Ok(list) => (StatusCode::OK, list),
            Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string()),
        },
        None => failure(StatusCode::NOT_FOUND, "NotFound", "only the metrics of a namespace's pods are served"),
    };
    let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// What there is in this version of the group.
    Resources,
    /// The pods of a namespace.
    Pods(&'a str),
}

impl<'a> Asked<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        match words[..] {
            ["apis", GROUP, VERSION] => Some(Self::Resources),
            ["apis", GROUP, VERSION, "namespaces", namespace, "pods"] => Some(Self::Pods(namespace)),
            _ => None,
        }
    }
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [
            { "name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"] },
        ],
    })
}

/// The figures of the pods of a namespace that a query selects.
async fn pods(client: &Client, namespace: &str, query: Option<&str>) -> Result<Value, kube::Error> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods?resourceVersion=0");
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments?resourceVersion=0");
    let deployments: Vec<Deployment> = list(client, &deployments).await?;
    let all: Vec<Pod> = list(client, &pods).await?;
    // As it was asked, so that nothing here reads selectors.
    let selector = query.unwrap_or_default().split('&').find(|pair| pair.starts_with("labelSelector="));
    let selected: Vec<Pod> = match selector {
        Some(selector) => list(client, &format!("{pods}&{selector}")).await?,
        None => all.clone(),
    };
    let used = usage::of(&deployments, &all);
    let now = Time(Timestamp::now());
    let item = |pod: &Pod| Some(metrics(pod, *used.get(&pod.name_any())?, &now));
    let items: Vec<Value> = selected.iter().filter_map(item).collect();
    Ok(json!({ "kind": "PodMetricsList", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items }))
}

/// The figures of a pod. Its first container does all of the work.
fn metrics(pod: &Pod, cpu_millis: u64, now: &Time) -> Value {
    let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| &container.name);
    let usage = |(at, name): (usize, &String)| {
        let cpu = if at == 0 { format!("{cpu_millis}m") } else { "0".to_owned() };
        json!({ "name": name, "usage": { "cpu": cpu, "memory": "16Mi" } })
    };
    json!({
        "kind": "PodMetrics",
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": { "name": pod.name_any(), "namespace": pod.namespace(), "labels": pod.labels() },
        "timestamp": now,
        "window": WINDOW,
        "containers": names.enumerate().map(usage).collect::<Vec<_>>(),
    })
}

async fn list<K>(client: &Client, path: &str) -> Result<Vec<K>, kube::Error>
where
    K: Clone + Serialize + DeserializeOwned,
{
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    Ok(client.request::<ObjectList<K>>(request).await?.items)
}

fn failure(status: StatusCode, reason: &str, message: &str) -> (StatusCode, Value) {
    let code = status.as_u16();
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
    });
    (StatusCode::from_u16(code).unwrap_or_default(), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_what_is_asked() {
        assert_eq!(Asked::of("/apis/metrics.k8s.io/v1beta1"), Some(Asked::Resources));
        assert_eq!(Asked::of("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods"), Some(Asked::Pods("a")));
        for path in ["/apis", "/openapi/v2", "/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1"] {
            assert_eq!(Asked::of(path), None, "{path}");
        }
    }

    #[test]
    fn the_first_container_does_the_work() {
        let pod = json!({
            "metadata": { "name": "nginx-1", "namespace": "default" },
            "spec": { "containers": [{ "name": "nginx" }, { "name": "log" }] },
        });
        let metrics = metrics(&serde_json::from_value(pod).unwrap(), 750, &Time(Timestamp::UNIX_EPOCH));
        assert_eq!(metrics["containers"][0]["usage"]["cpu"], "750m");
        assert_eq!(metrics["containers"][1]["usage"]["cpu"], "0");
        assert_eq!(metrics["timestamp"], "1970-01-01T00:00:00Z");
    }
}
