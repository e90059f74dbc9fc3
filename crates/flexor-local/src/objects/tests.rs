//! Objects that are read, refused and changed, and the priority of classes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn read(manifest: &Value) -> Object {
    Object::read(manifest).unwrap().unwrap()
}

fn errors(manifest: &Value) -> Vec<String> {
    Object::read(manifest).unwrap().unwrap_err().iter().map(ToString::to_string).collect()
}

fn config_map(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": data })
}

fn secret(data: &Value, texts: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": data, "stringData": texts })
}

fn class(name: &str, value: i64, global_default: bool) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value,
        "globalDefault": global_default,
    })
}

fn kept(object: Object) -> StoredObject {
    StoredObject { object, uid: "u".to_owned(), created_at: UnixTime::EPOCH }
}

fn objects(manifests: &[Value]) -> Objects {
    let mut objects = Objects::default();
    manifests.iter().for_each(|manifest| objects.insert(kept(read(manifest))));
    objects
}

#[test]
fn data_is_bytes_whichever_way_it_is_written() {
    let of = |manifest: &Value| match read(manifest).content {
        Content::Data(data) => data,
        Content::Priority(_) => BTreeMap::new(),
    };
    assert_eq!(of(&config_map(&json!({ "k": "v" })))["k"], b"v");
    let data = of(&secret(&json!({ "a": "/wA=", "b": "Yg==" }), &json!({ "b": "plain" })));
    assert_eq!((&data["a"][..], &data["b"][..]), (&[0xff, 0][..], &b"plain"[..]), "plain texts win");
}

#[test]
fn a_secret_is_stored_as_the_api_server_does() {
    let object = read(&secret(&json!({}), &json!({ "b": "plain" })));
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" },
        "data": { "b": "cGxhaW4=" }, "type": "Opaque",
    });
    assert_eq!(object.manifest, expected);
    let mut shown = object.manifest.clone();
    shown["metadata"]["uid"] = "u".into();
    shown["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(read(&shown), object, "a shown object reads back as the same");
    assert!(!format!("{:?}", kept(object)).contains("plain"));
}

#[test]
fn errors_name_their_field() {
    let messages = errors(&config_map(&json!({ "x": 5, "a/b": "y" })));
    assert_eq!(
        messages,
        [
            "data.x: must be a string, got a number; put quotes around it",
            "data.a/b: keys consist of letters, digits, `-`, `_` and `.`"
        ]
    );
    let messages = errors(&secret(&json!({ "x": "not base64!" }), &Value::Null));
    assert_eq!(messages, ["data.x: is not base64; plain text belongs into stringData"]);
    let mut nameless = config_map(&json!([]));
    nameless["metadata"] = json!({});
    nameless["dat"] = json!({});
    assert_eq!(
        errors(&nameless),
        [
            "dat: ConfigMap has no such field; it has data, binaryData, immutable",
            "metadata.name: is missing; add `name:`",
            "data: must be a mapping, got a list"
        ]
    );
    assert_eq!(errors(&class("high", 2_000_000_000, false)), ["value: must lie between -2147483648 and 1000000000"]);
    let mut old = class("high", 1, false);
    old["apiVersion"] = "scheduling.k8s.io/v1beta1".into();
    assert_eq!(errors(&old), ["apiVersion: PriorityClass is served as scheduling.k8s.io/v1; write that"]);
    let large = config_map(&json!({ "x": "y".repeat((1 << 20) + 1) }));
    assert_eq!(errors(&large), ["data: has 1048577 bytes; at most 1048576 are possible"]);
}

#[test]
fn other_kinds_are_not_read() {
    assert!(Object::read(&json!({ "apiVersion": "v1", "kind": "Pod" })).is_none());
    assert!(Object::read(&json!({ "apiVersion": "example.org/v1", "kind": "Secret" })).is_none());
}

#[test]
fn a_class_has_its_own_priority_and_no_class_the_default() {
    let some = objects(&[class("high", 1000, false), class("low", -5, true)]);
    let of = |class| some.priority(class);
    assert_eq!((of(Some("high")), of(None), of(Some("")), of(Some("nobody"))), (1000, -5, -5, 0));
    assert_eq!(of(Some("system-node-critical")), 2_000_001_000);
    assert_eq!(Objects::default().priority(None), 0);
}

#[test]
fn immutable_objects_and_values_of_classes_cannot_change() {
    let mut fixed = config_map(&json!({ "k": "v" }));
    fixed["immutable"] = true.into();
    let some = objects(&[fixed.clone(), class("low", 1, true)]);
    assert_eq!(some.admit(&read(&fixed)).unwrap(), ObjectChange::Same);
    let refused = |manifest: &Value| some.admit(&read(manifest)).unwrap_err().to_string();
    assert!(refused(&config_map(&json!({ "k": "w" }))).starts_with("ConfigMap c is immutable"));
    assert!(refused(&class("low", 2, true)).contains("keeps its value"));
    assert!(refused(&class("other", 2, true)).contains("PriorityClass low is the default already"));
    assert_eq!(some.admit(&read(&class("low", 1, false))).unwrap(), ObjectChange::Other);
    assert_eq!(some.admit(&read(&class("other", 2, false))).unwrap(), ObjectChange::New);
}
