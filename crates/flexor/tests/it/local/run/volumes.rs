//! Tests volumes: their content at the mount paths, their visibility, and leftovers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;
use serde_json::{Value, json};

use super::super::faults::deadline::eventually_or_explain;
use super::super::faults::process::inside;
use super::super::launch::folder::WAIT;
use super::super::launch::launcher::{Launcher, await_gone};
use super::cluster::{Workspace, job_of};

/// Folders that no machine has.
const SHARED: &str = "/flexor-test-shared/deep";
const CONFIG: &str = "/etc/flexor-test-config";

/// An unprivileged user.
const NOBODY: u32 = 65534;

/// A job of one worker with one volume of each kind, which records what it finds in its working folder.
fn every_kind(machine: &Path) -> Vec<Value> {
    let script = format!(
        "#!/bin/sh
        tell() {{ echo \"$@\" >> told; }}
        cd {here}
        tell shared $(cat {SHARED}/from-init) part $(ls -A /flexor-test-part)
        tell config $(cat {CONFIG}/a.txt) $(touch {CONFIG}/x 2>/dev/null && echo writable || echo read-only)
        tell secret $(cat /flexor-test-secret) $(stat -c %a /flexor-test-secret) $TOKEN
        tell claim $(cat /flexor-test-claim/lives 2>/dev/null || echo new); echo lived >> /flexor-test-claim/lives
        tell machine $(cat /flexor-test-machine/file); echo written > /flexor-test-machine/back
        tell pod $(cat /flexor-test-pod/name) in $0
        tell elsewhere $(ls /usr/bin/env) $(cat {SHARED}/../deep/from-init | wc -l)
        ",
        here = machine.parent().unwrap().display()
    );
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "config" },
        "data": { "a.txt": "alpha", "run.sh": script },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "secret" }, "stringData": { "token": "hush" },
    });
    let mut job = job_of("volumes", 1, "");
    let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    let container = &mut spec["containers"][0];
    container["command"] = json!(["/flexor-test-scripts/run.sh"]);
    container["workingDir"] = json!(SHARED);
    container["env"] =
        json!([{ "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "secret", "key": "token" } } }]);
    container["volumeMounts"] = json!([
        { "name": "shared", "mountPath": SHARED },
        { "name": "shared", "mountPath": "/flexor-test-part", "subPath": "part" },
        { "name": "config", "mountPath": CONFIG },
        { "name": "scripts", "mountPath": "/flexor-test-scripts" },
        { "name": "secret", "mountPath": "/flexor-test-secret", "subPath": "token" },
        { "name": "claim", "mountPath": "/flexor-test-claim" },
        { "name": "machine", "mountPath": "/flexor-test-machine" },
        { "name": "pod", "mountPath": "/flexor-test-pod" },
    ]);
    spec["initContainers"] = json!([{
        "name": "first", "command": ["sh", "-c", format!("echo first > {SHARED}/from-init; mkdir {SHARED}/part; touch {SHARED}/part/p")],
        "volumeMounts": [{ "name": "shared", "mountPath": SHARED }],
    }]);
    spec["volumes"] = json!([
        { "name": "shared", "emptyDir": { "medium": "Memory" } },
        { "name": "config", "configMap": { "name": "config", "items": [{ "key": "a.txt", "path": "a.txt" }] } },
        { "name": "scripts", "configMap": { "name": "config", "defaultMode": 0o755 } },
        { "name": "secret", "secret": { "secretName": "secret" } },
        { "name": "claim", "persistentVolumeClaim": { "claimName": "data" } },
        { "name": "machine", "hostPath": { "path": machine, "type": "Directory" } },
        { "name": "pod", "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ]);
    vec![config, secret, job]
}

/// A workspace with a job of every kind of volume, and the names of its files.
fn prepared() -> (Workspace, Vec<String>) {
    let workspace = Workspace::new();
    let machine = workspace.folder.path().join("machine");
    fs::create_dir(&machine).unwrap();
    fs::write(machine.join("file"), "machine").unwrap();
    let files = every_kind(&machine).iter().map(|manifest| workspace.manifest(manifest)).collect();
    (workspace, files)
}

/// Checks what the job of every kind has found.
fn assert_all_was_found(workspace: &Workspace, claim: &str, message: &str) {
    let claim = format!("claim {claim}");
    let expected = [
        "shared first part p",
        "config alpha read-only",
        "secret hush 600 hush",
        &claim,
        "machine machine",
        "pod volumes-worker-0 in /flexor-test-scripts/run.sh",
        "elsewhere /usr/bin/env 1",
    ];
    assert_eq!(workspace.folder.lines("told"), expected, "{message}");
    assert_eq!(workspace.folder.read("machine/back"), "written\n");
    for path in [SHARED, CONFIG, "/flexor-test-shared", "/flexor-test-claim"] {
        assert!(!Path::new(path).exists(), "{path} is on this machine");
    }
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_program_finds_its_volumes_at_their_paths_and_the_host_is_unchanged() {
    let (workspace, files) = prepared();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let ended = workspace.run(&files).wait_for(0);
    assert_all_was_found(&workspace, "new", &ended.stdout);
    let note = "the claim data is the folder claims/default/data of the cluster; what is in it stays";
    assert!(ended.stderr.contains(note), "{}", ended.stderr);
    fs::remove_file(workspace.folder.path().join("told")).unwrap();
    let ended = workspace.run(&files).wait_for(0);
    assert_all_was_found(&workspace, "lived", &ended.stdout);
}

#[test]
fn a_program_of_an_unprivileged_user_finds_its_volumes() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can switch to another user");
        return;
    }
    let (workspace, files) = prepared();
    let flexor = workspace.folder.path().join("flexor");
    let run = workspace.command(&[]);
    fs::copy(run.get_program(), &flexor).unwrap();
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(&flexor).args(run.get_args());
    command.args(&files).arg("--ephemeral").current_dir(workspace.folder.path()).env("HOME", workspace.folder.path());
    std::os::unix::fs::chown(workspace.folder.path(), Some(NOBODY), None).unwrap();
    std::os::unix::fs::chown(workspace.folder.path().join("machine"), Some(NOBODY), None).unwrap();
    fs::set_permissions(workspace.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let ended = Launcher::start(&mut command).wait();
    if ended.stdout.contains("this system forbids mounts") {
        eprintln!("skipped: this system has no user namespaces");
        return;
    }
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_all_was_found(&workspace, "new", &ended.stdout);
}

#[test]
fn where_mounts_are_forbidden_a_message_says_so_and_host_paths_work() {
    let workspace = Workspace::new();
    let data = workspace.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let with = |name: &str, at: &Path| {
        let mut job = job_of(name, 1, &format!("echo {name} > {}/told", at.display()));
        let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
        spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": at }]);
        spec["volumes"] = json!([{ "name": "data", "hostPath": { "path": data } }]);
        workspace.manifest(&job)
    };
    let forbidden = |file: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--user", "--map-root-user", "sh"]);
        let script = "echo 0 > /proc/sys/user/max_mnt_namespaces || exit 99; exec \"$@\"";
        let mut command = inside(shell, script, Path::new("sh"), &workspace.command(&[file, "--ephemeral"]));
        Launcher::start(command.current_dir(workspace.folder.path())).wait()
    };
    let itself = forbidden(&with("itself", &data));
    if itself.code != Some(0) && (itself.code == Some(99) || itself.stderr.contains("unshare")) {
        eprintln!("skipped: this system has no user namespaces to forbid anything in");
        return;
    }
    assert_eq!(itself.code, Some(0), "{}{}", itself.stdout, itself.stderr);
    assert_eq!(workspace.folder.read("data/told"), "itself\n");
    let other = forbidden(&with("other", Path::new("/flexor-test-data")));
    assert_eq!(other.code, Some(1));
    let message = "this system forbids mounts";
    let way_out = "use hostPath volumes whose mountPath is their path";
    assert!(other.stdout.contains(message) && other.stdout.contains(way_out), "{}", other.stdout);
}

#[test]
fn no_mount_remains_when_a_supervisor_is_killed() {
    let workspace = Workspace::new();
    let here = workspace.folder.path().display();
    let script = format!("cd {here}; ls -A /flexor-test-data | wc -l >> found; echo x > /flexor-test-data/x; {WAIT}");
    let mut job = job_of("killed", 1, &script);
    let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/flexor-test-data" }]);
    spec["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    let run = workspace.run(&[&workspace.manifest(&job)]);
    let pod = workspace.await_running("killed-worker-0");
    workspace.folder.await_lines("found", 1);
    kill(pod.supervisor(), Signal::SIGKILL).unwrap();
    await_gone(&pod.main_id().unwrap().as_raw().to_string());
    // Its successor begins with an empty folder.
    assert_eq!(workspace.folder.await_lines("found", 2), ["0", "0"]);
    let gone = || (!workspace.state_dir().pod(&pod.status.uid).path().exists()).then_some(());
    eventually_or_explain("the folder of the pod to be gone", gone, || run.stdout());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(workspace.folder.path().to_str().unwrap()), "{mounts}");
    workspace.folder.let_go();
    run.wait_for(0);
    workspace.assert_nothing_is_left_of(&[pod]);
}

#[test]
fn volumes_may_nest_and_hide_their_source() {
    let workspace = Workspace::new();
    let (here, machine) = (workspace.folder.path(), workspace.folder.path().join("machine"));
    fs::create_dir(&machine).unwrap();
    fs::write(machine.join("file"), "machine").unwrap();
    let script = format!(
        "cd {here}
        echo $(ls -A machine | wc -l) $(cat /flexor-test-seen/file) >> told; echo x > machine/x
        echo $(cat /flexor-test-outer/inner/a.txt) >> told; echo y > /flexor-test-outer/y && ls -A /flexor-test-outer >> told
        touch go-on 2>/dev/null && echo here >> told; touch fixed/x 2>/dev/null || echo fixed >> told",
        here = here.display()
    );
    fs::create_dir(here.join("fixed")).unwrap();
    let mut job = job_of("hiding", 1, &script);
    let spec = &mut job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
    spec["containers"][0]["volumeMounts"] = json!([
        { "name": "inner", "mountPath": "/flexor-test-outer/inner" },
        { "name": "empty", "mountPath": machine },
        { "name": "machine", "mountPath": "/flexor-test-seen" },
        { "name": "outer", "mountPath": "/flexor-test-outer" },
        { "name": "fixed", "mountPath": here.join("fixed"), "readOnly": true },
    ]);
    spec["volumes"] = json!([
        { "name": "machine", "hostPath": { "path": machine } },
        { "name": "fixed", "hostPath": { "path": here.join("fixed") } },
        { "name": "empty", "emptyDir": {} },
        { "name": "outer", "emptyDir": {} },
        { "name": "inner", "configMap": { "name": "config" } },
    ]);
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "config" }, "data": { "a.txt": "alpha" },
    });
    let ended = workspace.run(&[&workspace.manifest(&config), &workspace.manifest(&job)]).wait_for(0);
    let message = ["0 machine", "alpha", "inner", "y", "here", "fixed"];
    assert_eq!(workspace.folder.lines("told"), message, "{}", ended.stdout);
    assert!(!machine.join("x").exists() && here.join("go-on").exists());
}

#[test]
fn a_folder_that_a_program_runs_in_is_never_covered() {
    let workspace = Workspace::new();
    let at = workspace.folder.path().join("not-there");
    let mut job = job_of("here", 1, "true");
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": at }]);
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["volumes"] = json!([{ "name": "data", "emptyDir": {} }]);
    let ended = workspace.run(&[&workspace.manifest(&job)]).wait_for(1);
    let message = format!("'{0}' is not there; make it first: mkdir -p '{0}'", at.display());
    assert!(ended.stdout.contains(&message), "{}", ended.stdout);
    fs::create_dir(&at).unwrap();
    workspace.run(&[&workspace.manifest(&job)]).wait_for(0);
}
