//! What pods use, from the queries that their Deployments serve.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt as _;

use super::QPS;

/// Thousandths of a core of each pod of a Deployment that says how many queries it serves, by the pod's name.
pub(super) fn of(deployments: &[Deployment], pods: &[Pod]) -> BTreeMap<String, u64> {
    let mut used = BTreeMap::new();
    for deployment in deployments {
        // A number that cannot be read is no figure, as a broken probe would be.
        let Some(queries) = deployment.annotations().get(QPS).and_then(|qps| qps.parse::<u64>().ok()) else { continue };
        let serving: Vec<&Pod> = pods.iter().filter(|pod| is_of(pod, deployment) && is_serving(pod)).collect();
        let Some(each) = queries.checked_div(serving.len() as u64) else { continue };
        used.extend(serving.iter().map(|pod| (pod.name_any(), each)));
    }
    used
}

/// Whether a pod has the labels that the Deployment selects.
fn is_of(pod: &Pod, deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| pod.labels().get(key) == Some(value)))
}

fn is_serving(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(app: &str, qps: Option<&str>) -> Deployment {
        let annotations = qps.map(|qps| json!({ QPS: qps }));
        let selector = json!({ "matchLabels": { "app": app } });
        serde_json::from_value(json!({
            "metadata": { "name": app, "annotations": annotations },
            "spec": { "selector": selector, "template": {} },
        }))
        .unwrap()
    }

    fn pod(name: &str, app: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "app": app } },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        }))
        .unwrap()
    }

    #[test]
    fn ready_pods_share_the_queries() {
        let pods = [pod("a", "nginx", "True"), pod("b", "nginx", "True"), pod("c", "nginx", "False")];
        let used = of(&[deployment("nginx", Some("1500"))], &pods);
        assert_eq!(used, [("a".to_owned(), 750), ("b".to_owned(), 750)].into());
    }

    #[test]
    fn others_have_no_figures() {
        let mut leaving = pod("a", "nginx", "True");
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap();
        let pods = [leaving, pod("b", "other", "True")];
        assert!(of(&[deployment("nginx", Some("1500")), deployment("other", None)], &pods).is_empty());
        assert!(of(&[deployment("other", Some("many"))], &pods).is_empty());
    }
}
