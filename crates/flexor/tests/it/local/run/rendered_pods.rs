//! Tests rendered Pods from the view of their programs: TensorFlow's cluster, labels, and restarts.

use serde_json::{Value, json};

use super::cluster::Workspace;

/// A parameter-server job of DLRover with one server and one chief, each a script in a shell.
fn job(server: &str, chief: &str) -> Value {
    let template = |script: &str| {
        let field = json!({ "fieldRef": { "fieldPath": "metadata.labels['team']" } });
        let container = json!({
            "name": "main", "image": "any:image", "command": ["sh", "-c", script],
            "env": [{ "name": "TEAM", "valueFrom": field }, { "name": "NODE_TYPE", "value": "my $(NODE_ID)" }],
        });
        json!({ "metadata": { "labels": { "team": "of-the-template" } },
                "spec": { "containers": [container], "restartPolicy": "Always" } })
    };
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": "tf", "labels": { "team": "of-the-job" } },
        "spec": {
            "distributionStrategy": "ParameterServerStrategy",
            "optimizeMode": "manual",
            "replicaSpecs": {
                "ps": { "replicas": 1, "template": template(server) },
                "worker": { "replicas": 1, "template": template(chief) },
            },
        },
    })
}

#[test]
fn a_tensorflow_program_finds_its_cluster_by_the_addresses_of_pods() {
    let workspace = Workspace::new();
    let server = "echo $POD_IP > ps.ip; while :; do sleep 0.1; done";
    let chief = "echo $POD_IP > chief.ip; echo \"$TF_CONFIG\" > config; echo \"$TEAM, $NODE_TYPE\" >> told";
    let manifest = workspace.manifest(&job(server, chief));
    workspace.run(&[&manifest]).wait_for(0);
    let line = |file: &str| workspace.folder.lines(file).remove(0);
    let config: Value = serde_json::from_str(&line("config")).unwrap();
    assert_eq!(config["cluster"]["ps"], json!([format!("{}:2222", line("ps.ip"))]));
    assert_eq!(config["cluster"]["chief"], json!([format!("{}:3333", line("chief.ip"))]));
    assert_eq!(config["cluster"].get("worker"), None, "the only worker is the chief");
    assert_eq!(config["task"], json!({ "type": "chief", "index": 0 }));
    assert_eq!(workspace.folder.lines("told"), ["of-the-template, my 0"], "it ran once, whatever its restartPolicy");
}
