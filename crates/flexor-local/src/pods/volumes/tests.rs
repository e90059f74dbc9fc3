//! Mounts of containers, and volumes that are refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::*;
use crate::objects::ObjectKind;

struct TestSources;

impl ValueSources for TestSources {
    fn pod_field(&self, path: &str) -> Option<String> {
        (path == "metadata.name").then(|| "p".to_owned())
    }
    fn resource_field(&self, _: &Value, resource: &str) -> Option<String> {
        (resource == "limits.cpu").then(|| "2".to_owned())
    }
    fn data(&self, _: ObjectKind, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        (name == "there").then(|| [("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())].into())
    }
}

/// What a container finds that mounts one volume at `/v`.
fn mounted(volume: &Value, mount: &Value) -> Result<MountPlan, VolumeError> {
    let mut volume = volume.clone();
    volume["name"] = "v".into();
    let spec = json!({ "containers": [{ "name": "main" }], "volumes": [volume] });
    let mut wanted = json!({ "name": "v", "mountPath": "/v" });
    for (key, value) in mount.as_object().unwrap() {
        wanted[key] = value.clone();
    }
    let claim = |name: &str| Path::new("/claims").join(name);
    let context = VolumeContext { spec: &spec, sources: &TestSources, claim: &claim };
    let container = json!({ "volumeMounts": [wanted] });
    let env = [("N".to_owned(), "7".to_owned())].into();
    of_container(&container, &env, &context).map(|mut mounts| mounts.remove(0))
}

fn files(volume: &Value) -> Result<Vec<String>, VolumeError> {
    let VolumePlan::Files { files, .. } = mounted(volume, &json!({}))?.volume else { panic!("no files") };
    let shown = files.iter().map(|file| {
        let content = String::from_utf8(BASE64_STANDARD.decode(&file.content).unwrap()).unwrap();
        format!("{} {:o} {content}", file.path.display(), file.mode)
    });
    Ok(shown.collect())
}

fn refused(volume: &Value) -> String {
    mounted(volume, &json!({})).unwrap_err().to_string()
}

#[test]
fn each_kind_of_volume_leads_to_its_own_source() {
    let plan = |volume: &Value| mounted(volume, &json!({})).unwrap();
    let empty = VolumePlan::Empty("v".to_owned());
    assert_eq!(plan(&json!({ "emptyDir": { "medium": "Memory" } })).volume, empty);
    assert_eq!(plan(&json!({})).volume, empty, "as on Kubernetes");
    let claim = plan(&json!({ "persistentVolumeClaim": { "claimName": "data", "readOnly": true } }));
    assert_eq!((claim.volume, claim.read_only), (VolumePlan::Claim("/claims/data".into()), true));
    let host = plan(&json!({ "hostPath": { "path": "/data", "type": "Directory" } }));
    assert_eq!(host.volume, VolumePlan::Host { path: "/data".into(), is: HostPathType::Directory });
    assert!(!host.read_only && plan(&json!({ "configMap": { "name": "there" } })).read_only);
    let part = mounted(&json!({ "emptyDir": {} }), &json!({ "subPathExpr": "of/$(N)" })).unwrap();
    assert_eq!(part.sub_path, Some("of/7".into()));
}

#[test]
fn volumes_hold_the_chosen_files_with_the_chosen_modes() {
    assert_eq!(files(&json!({ "configMap": { "name": "there" } })).unwrap(), ["a 644 1", "b 644 2"]);
    assert_eq!(files(&json!({ "secret": { "secretName": "there" } })).unwrap(), ["a 600 1", "b 600 2"]);
    let items = json!([{ "key": "b", "path": "sub/x", "mode": 0o400 }]);
    let chosen = json!({ "secret": { "secretName": "there", "defaultMode": 0o640, "items": items } });
    assert_eq!(files(&chosen).unwrap(), ["sub/x 400 2"]);
    let fields = json!([
        { "path": "name", "fieldRef": { "fieldPath": "metadata.name" } },
        { "path": "cpu", "resourceFieldRef": { "containerName": "main", "resource": "limits.cpu" } },
    ]);
    assert_eq!(files(&json!({ "downwardAPI": { "items": fields } })).unwrap(), ["name 644 p", "cpu 644 2"]);
    let sources = json!([
        { "configMap": { "name": "there" } },
        { "secret": { "name": "there", "items": [{ "key": "a", "path": "secret" }] } },
        { "configMap": { "name": "none", "optional": true } },
    ]);
    let together = json!({ "projected": { "defaultMode": 0o400, "sources": sources } });
    assert_eq!(files(&together).unwrap(), ["a 400 1", "b 400 2", "secret 400 1"]);
}

#[test]
fn a_missing_object_is_waited_for() {
    let missing = |what: &str| VolumeError::Missing { volume: "v".to_owned(), what: what.to_owned() };
    assert_eq!(files(&json!({ "secret": { "secretName": "none" } })), Err(missing("the Secret none")));
    let items = json!([{ "key": "z", "path": "z" }]);
    let of_key = json!({ "configMap": { "name": "there", "items": items } });
    assert_eq!(files(&of_key), Err(missing("key z of the ConfigMap there")));
    assert_eq!(files(&json!({ "configMap": { "name": "none", "optional": true } })), Ok(vec![]));
}

#[test]
fn an_unsupported_volume_says_what_to_write_instead() {
    assert_eq!(
        refused(&json!({ "nfs": { "server": "s", "path": "/" } })),
        "volume v: nfs volumes are not supported here; mount it on this machine and write hostPath"
    );
    assert!(refused(&json!({ "ephemeral": {} })).contains("write emptyDir"));
    assert!(refused(&json!({ "emptyDir": { "medium": "HugePages" } })).contains("medium HugePages"));
    assert!(refused(&json!({ "hostPath": { "path": "data" } })).contains("must be a full path"));
    assert!(refused(&json!({ "hostPath": { "path": "/data", "type": "Folder" } })).contains("hostPath.type Folder"));
    assert!(refused(&json!({ "persistentVolumeClaim": { "claimName": "../x" } })).contains("no name of a claim"));
    assert!(
        refused(&json!({ "projected": { "sources": [{ "serviceAccountToken": {} }] } }))
            .contains("serviceAccountToken")
    );
    let items = json!([{ "key": "a", "path": "../a" }]);
    assert!(refused(&json!({ "configMap": { "name": "there", "items": items } })).contains("path ../a"));
    for (field, value) in [("mountPath", "data"), ("mountPath", "/"), ("mountPath", "/proc/x"), ("subPath", "/etc")] {
        let mut mount = json!({});
        mount[field] = value.into();
        let error = mounted(&json!({ "emptyDir": {} }), &mount).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains(value), "{error}");
    }
}

#[test]
fn all_impossible_mounts_are_named_at_once() {
    let spec = json!({ "volumes": [{ "name": "a", "emptyDir": {} }, { "name": "n", "nfs": {} }] });
    let container = json!({ "volumeMounts": [
        { "name": "a", "mountPath": "/a" }, { "name": "n", "mountPath": "/n" },
        { "name": "a", "mountPath": "/a" }, { "name": "typo", "mountPath": "/t" },
    ] });
    let errors: Vec<String> = preflight(&container, &spec).iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.contains(&"volume typo: is mounted and not declared; declared are: a, n".to_owned()));
    assert!(errors.contains(&"volume a: mountPath /a is taken by another volume".to_owned()));
}
