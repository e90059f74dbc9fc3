//! A container of a pod, described: what it is to run, and what has become of it.

use serde_json::Value;

use super::tree::Text;
use crate::verbs::cells;
use crate::verbs::pod_state::list;

/// Volumes of these kinds are read-only, whatever a mount says.
const ONLY_READ: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];

/// `planned` is what the pod's template says, `told` what is known of it; either may be nothing. `volumes` are the pod's.
pub fn describe(text: &mut Text, planned: &Value, told: &Value, volumes: &[Value]) {
    let words = |field: &str| -> Option<String> {
        let words: Vec<String> = list(&planned[field]).iter().map(cells::text).collect();
        (!words.is_empty()).then(|| words.join("\n"))
    };
    let mut pairs = Vec::new();
    if let Some(image) = planned["image"].as_str() {
        pairs.push(("Image", format!("{image} (not looked at)")));
    }
    let ports: Vec<String> = list(&planned["ports"]).iter().map(port).collect();
    if !ports.is_empty() {
        pairs.push(("Ports", ports.join(", ")));
    }
    for (name, value) in [("Command", words("command")), ("Args", words("args"))] {
        pairs.extend(value.map(|value| (name, value)));
    }
    if let Some(folder) = planned["workingDir"].as_str() {
        pairs.push(("Working Dir", folder.to_owned()));
    }
    if told.is_object() {
        pairs.extend(state(&told["state"]));
        pairs.push(("Ready", if told["ready"] == true { "True" } else { "False" }.to_owned()));
        pairs.push(("Restart Count", cells::text(&told["restartCount"])));
        for (name, field) in [("Memory Limits", "memoryLimited"), ("Log Cut", "logCut")] {
            if let Some(value) = told[field].as_str() {
                pairs.push((name, value.to_owned()));
            }
        }
    }
    for (name, of) in [("Limits", "limits"), ("Requests", "requests")] {
        let quantities = planned["resources"][of].as_object().into_iter().flatten();
        let quantities: Vec<String> =
            quantities.map(|(resource, quantity)| format!("{resource}: {}", cells::text(quantity))).collect();
        if !quantities.is_empty() {
            pairs.push((name, quantities.join(", ")));
        }
    }
    text.pairs(&pairs);
    text.rows("Environment", &environment(planned));
    let mounts = list(&planned["volumeMounts"]).iter().map(|mount| vec![mount_of(mount, volumes)]);
    text.rows("Mounts", &mounts.collect::<Vec<_>>());
}

fn port(port: &Value) -> String {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    format!("{}/{protocol}", cells::text(&port["containerPort"]))
}

/// The variables that the template sets, each with its value or where that comes from.
fn environment(planned: &Value) -> Vec<Vec<String>> {
    let whole = list(&planned["envFrom"]).iter().filter_map(|source| {
        let of = |field: &str, kind: &str| source[field]["name"].as_str().map(|name| format!("all of {kind} {name}"));
        of("configMapRef", "ConfigMap").or_else(|| of("secretRef", "Secret")).map(|from| vec![from])
    });
    let each = list(&planned["env"]).iter().map(|variable| {
        let from = &variable["valueFrom"];
        let key = |of: &Value, kind: &str| {
            format!("<the key {} of {kind} {}>", cells::text(&of["key"]), cells::text(&of["name"]))
        };
        let value = match () {
            () if from["fieldRef"].is_object() => format!("(v1:{})", cells::text(&from["fieldRef"]["fieldPath"])),
            () if from["resourceFieldRef"].is_object() => {
                format!("({})", cells::text(&from["resourceFieldRef"]["resource"]))
            }
            () if from["configMapKeyRef"].is_object() => key(&from["configMapKeyRef"], "ConfigMap"),
            () if from["secretKeyRef"].is_object() => key(&from["secretKeyRef"], "Secret"),
            () => cells::text(&variable["value"]),
        };
        vec![format!("{}:", cells::text(&variable["name"])), value]
    });
    whole.chain(each).collect()
}

fn mount_of(mount: &Value, volumes: &[Value]) -> String {
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
    let is_only_read = volume.is_some_and(|volume| ONLY_READ.iter().any(|kind| volume[*kind].is_object()));
    let mode = if is_only_read || mount["readOnly"] == true { "ro" } else { "rw" };
    let part = mount["subPath"].as_str().map(|path| format!(",path=\"{path}\"")).unwrap_or_default();
    format!("{} from {} ({mode}{part})", cells::text(&mount["mountPath"]), cells::text(&mount["name"]))
}

fn state(state: &Value) -> Vec<(&'static str, String)> {
    let (waiting, running, ended) = (&state["waiting"], &state["running"], &state["terminated"]);
    let mut pairs = Vec::new();
    let fields: &[(&'static str, &Value)] = if running.is_object() {
        pairs.push(("State", "Running".to_owned()));
        &[("Started", &running["startedAt"]), ("Process", &running["pid"])]
    } else if ended.is_object() {
        pairs.push(("State", "Terminated".to_owned()));
        &[
            ("Reason", &ended["reason"]),
            ("Message", &ended["message"]),
            ("Exit Code", &ended["exitCode"]),
            ("Started", &ended["startedAt"]),
            ("Finished", &ended["finishedAt"]),
        ]
    } else {
        pairs.push(("State", "Waiting".to_owned()));
        &[("Reason", &waiting["reason"]), ("Message", &waiting["message"])]
    };
    let known = fields.iter().filter(|(_, value)| !value.is_null());
    pairs.extend(known.map(|(name, value)| (*name, cells::text(value))));
    pairs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_mounted_from_objects_is_only_read() {
        let volumes = [
            json!({ "name": "settings", "configMap": { "name": "a" } }),
            json!({ "name": "key", "secret": { "secretName": "b" } }),
            json!({ "name": "data", "emptyDir": {} }),
        ];
        let mount = |name: &str| mount_of(&json!({ "name": name, "mountPath": "/m" }), &volumes);
        assert_eq!(mount("settings"), "/m from settings (ro)");
        assert_eq!(mount("key"), "/m from key (ro)");
        assert_eq!(mount("data"), "/m from data (rw)");
        let only_read = json!({ "name": "data", "mountPath": "/m", "readOnly": true, "subPath": "x" });
        assert_eq!(mount_of(&only_read, &volumes), "/m from data (ro,path=\"x\")");
    }
}
