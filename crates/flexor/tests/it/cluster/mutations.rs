//! Checks that `flexor validate` and the API server agree about mutated manifests.
//!
//! Each mutation removes one field of a published manifest, empties it, or gives it a value of another type or size.
//! The API server judges the result in a dry run. The test takes a fixed sample of all mutations.

use std::collections::BTreeSet;

use flexor_dialects::manifest::{self, Verdict};
use flexor_model::Reason;
use flexor_testbed::cluster_or_skip;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{installed::with_all_kinds, manifests::manifests_below};

/// The test tries one in this many mutations.
const ONE_IN: usize = 7;
/// Requests at a time.
const AT_ONCE: usize = 16;

/// The objects of the published manifests, as JSON.
fn objects() -> Vec<Value> {
    let mut found = Vec::new();
    for file in manifests_below("testdata/published") {
        found.extend(serde_saphyr::from_multiple::<Value>(&file.text).unwrap());
    }
    found
}

/// The pointers of every value in an object, except those that identify it.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let here = format!("{at}/{}", escaped(key));
                if here != "/apiVersion" && here != "/kind" {
                    found.push(here.clone());
                    pointers(value, &here, found);
                }
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                found.push(format!("{at}/{i}"));
                pointers(value, &format!("{at}/{i}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mutations(object: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    pointers(object, "", &mut found);
    let values =
        [json!(null), json!(true), json!(-1), json!(0), json!(1.5), json!("4 Gi"), json!(""), json!([]), json!({})];
    let mut mutated = Vec::new();
    for pointer in found {
        for value in &values {
            let mut copy = object.clone();
            *copy.pointer_mut(&pointer).unwrap() = value.clone();
            mutated.push(copy);
        }
        let mut copy = object.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        if let Some(Value::Object(fields)) = copy.pointer_mut(parent) {
            let key = key.replace("~1", "/").replace("~0", "~");
            let value = fields.remove(&key).unwrap();
            mutated.push(object_with(object, parent, &format!("{key}x"), value));
            mutated.push(copy);
        }
    }
    mutated
}

fn object_with(object: &Value, parent: &str, key: &str, value: Value) -> Value {
    let mut copy = object.clone();
    copy.pointer_mut(parent).unwrap()[key] = value;
    copy
}

/// The refusal of the API server, if any.
async fn server_refuses(client: Client, namespace: String, object: Value) -> Option<String> {
    let (kind, api_version) = (object["kind"].as_str().unwrap(), object["apiVersion"].as_str().unwrap());
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/apis/{api_version}/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&object).unwrap())
        .unwrap();
    client.request::<Value>(request).await.err().map(|error| error.to_string())
}

/// What we refuse and the API server cannot, because a definition cannot express it.
fn only_we_can_tell(object: &Value) -> bool {
    let report = manifest::check(serde_json::to_string(object).unwrap().as_bytes());
    let mut reasons = report.findings().filter(|finding| finding.is_error()).map(|finding| {
        let quantity = finding.reason == Reason::WrongType && finding.message.contains("must be a quantity");
        // Rules of definitions do not see labels, and a label decides what a plan may contain.
        let label = ["metadata.labels.scale-type", "spec.createPods", "spec.removePods"].contains(&&*finding.field);
        finding.reason == Reason::UnreadablePod || quantity || label
    });
    reasons.all(|known| known)
}

fn we_refuse(object: &Value) -> bool {
    let report = manifest::check(serde_json::to_string(object).unwrap().as_bytes());
    report.documents.iter().any(|document| matches!(document.verdict, Verdict::Refused { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_agrees_about_mutated_manifests() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("mutations").await.unwrap();
    let all: Vec<Value> = objects().iter().flat_map(mutations).collect();
    let sample: Vec<Value> = all.into_iter().step_by(ONE_IN).collect();
    assert!(sample.len() > 500, "only {} mutations", sample.len());

    let mut disagreements = BTreeSet::new();
    let mut running = JoinSet::new();
    let mut waiting = sample.into_iter();
    loop {
        while running.len() < AT_ONCE {
            let Some(object) = waiting.next() else { break };
            let (client, name) = (namespace.client(), namespace.name().to_owned());
            running.spawn(async move { (server_refuses(client, name, object.clone()).await, object) });
        }
        let Some(done) = running.join_next().await else { break };
        let (refused, object) = done.unwrap();
        match (we_refuse(&object), refused) {
            (false, Some(server)) => {
                disagreements.insert(format!("we accept, the API server says: {server}"));
            }
            (true, None) if !only_we_can_tell(&object) => {
                let report = manifest::check(serde_json::to_string(&object).unwrap().as_bytes());
                let output: Vec<String> = report.findings().map(ToString::to_string).collect();
                disagreements.insert(format!("the API server accepts, we say: {}", output.join("; ")));
            }
            (true | false, _) => {}
        }
    }
    let listed: Vec<String> = disagreements.into_iter().collect();
    assert!(listed.is_empty(), "{} disagreements:\n{}", listed.len(), listed.join("\n"));
}
