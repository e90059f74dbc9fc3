//! Tests the custom resource definitions on a real API server.

use flexor_testbed::cluster_or_skip;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};
use serde_json::Value;

use super::installed::{is_established, succeed, with_all_kinds};

#[tokio::test(flavor = "multi_thread")]
async fn every_definition_is_established_and_applied_by_the_client() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().await.unwrap());
    let crds = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(crds.len(), flexor_dialects::crds().len());
    for crd in crds {
        let name = crd.metadata.name.as_deref().unwrap();
        assert!(is_established(&crd), "{name}");
        // The annotation in which a client-side `kubectl apply` keeps the object; it limits the size of a definition.
        let kept = "kubectl.kubernetes.io/last-applied-configuration";
        assert!(crd.metadata.annotations.iter().flatten().any(|(key, _)| key == kept), "{name}");
        let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let complaints: Vec<_> = conditions.filter(|c| c.type_ == "NonStructuralSchema").collect();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
    }
}

/// A field of a pod that neither we nor this Kubernetes know is kept for the pod that will be made.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_pod_field_survives_the_api_server() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("unknown-field").await.unwrap();
    let template = r#"{"metadata":{"labels":{"team":"a"}},"spec":{"schedulingGates":[{"name":"g"}],"fieldOfTomorrow":{"depth":2},"containers":[{"name":"main","image":"x","restartRule":"soon","resources":{"requests":{"cpu":0.5,"memory":"1Gi"}}}]}}"#;
    for (kind, spec) in [
        ("elasticjobs.elastic.iml.github.io", format!(r#"{{"replicaSpecs":{{"worker":{{"template":{template}}}}}}}"#)),
        (
            "elasticjobs.elastic.pytorch.org",
            format!(r#"{{"replicaSpecs":{{"Worker":{{"replicas":1,"template":{template}}}}}}}"#),
        ),
    ] {
        let group = kind.split_once('.').unwrap().1;
        let manifest = format!(
            r#"{{"apiVersion":"{group}/v1alpha1","kind":"ElasticJob","metadata":{{"name":"a"}},"spec":{spec}}}"#
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.json");
        std::fs::write(&file, manifest).unwrap();
        succeed(&mut namespace.kubectl(["apply", "-f", file.to_str().unwrap()]));
        let stored: Value =
            serde_json::from_str(&succeed(&mut namespace.kubectl(["get", kind, "a", "-o", "json"]))).unwrap();
        let roles = &stored["spec"]["replicaSpecs"];
        let role = roles.get("worker").or(roles.get("Worker")).unwrap();
        assert_eq!(role["template"], serde_json::from_str::<Value>(template).unwrap(), "{kind}");
    }
}

/// `kubectl scale` works on the kind whose users scale it by one number.
#[tokio::test(flavor = "multi_thread")]
async fn torchelastic_jobs_have_a_scale() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("scale").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.yaml");
    std::fs::write(&file, "apiVersion: elastic.pytorch.org/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\nspec:\n  minReplicas: 1\n  maxReplicas: 4\n  replicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: main, image: x}]}}}}\n").unwrap();
    succeed(&mut namespace.kubectl(["apply", "-f", file.to_str().unwrap()]));
    succeed(&mut namespace.kubectl(["scale", "tej/a", "--replicas=3"]));
    let replicas =
        succeed(&mut namespace.kubectl(["get", "tej/a", "-o", "jsonpath={.spec.replicaSpecs.Worker.replicas}"]));
    assert_eq!(replicas, "3");
    let too_many = namespace.kubectl(["scale", "tej/a", "--replicas=5"]).output().unwrap();
    assert!(!too_many.status.success(), "more than maxReplicas was accepted");
}
