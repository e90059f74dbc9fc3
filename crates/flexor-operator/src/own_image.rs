//! The image of the operator's own pod, which its jobs' masters and sidecars run as well: a second setting could disagree.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// The variable in which the overlays put the name of the operator's pod.
const POD_NAME: &str = "POD_NAME";
/// The name of the operator's container in the overlays.
const CONTAINER: &str = "operator";
/// What is used outside of a pod.
const OUTSIDE: &str = "flexor:latest";

/// The image of this process's container.
pub(crate) async fn find(client: &Client, namespace: &str) -> Result<String, kube::Error> {
    let Ok(name) = std::env::var(POD_NAME) else { return Ok(OUTSIDE.to_owned()) };
    let pod = Api::<Pod>::namespaced(client.clone(), namespace).get(&name).await?;
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    let own = containers.iter().find(|container| container.name == CONTAINER).or_else(|| containers.first());
    Ok(own.and_then(|own| own.image.clone()).unwrap_or_else(|| OUTSIDE.to_owned()))
}
