//! Tests the token of a laptop job: its programs show it to each other, others do not get in, and no output contains it.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use flexor_testbed::skip;
use flexor_wire::ps::v1 as ps;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;
use nix::unistd::geteuid;
use tonic::Code;

use super::cluster::{Workspace, job_of};
use super::quickstart::Quickstart;
use crate::local::background::cluster::BackgroundCluster;
use crate::local::faults::deadline::eventually;
use crate::local::faults::http;
use crate::local::faults::process::server;
use crate::local::launch::folder::WAIT;
use crate::program::{ProgramOutput, bin};

const NOBODY: &str = "65534";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A quickstart that still trains when all checks are done.
fn long() -> Quickstart<'static> {
    let checkpoints = Some("{ folder: kept, everySeconds: 1 }");
    Quickstart { records: 300_000, batch: 8, checkpoints, ..Quickstart::default() }
}

#[test]
fn a_stranger_cannot_command_a_laptop_job() {
    let workspace = Workspace::new();
    let training = long().start(&workspace, &[]);
    training.until("a checkpoint", |status| status["servers"]["checkpoints"]["latest"].as_u64() > Some(0));
    let status = training.status();
    let server: SocketAddr = status["servers"]["servers"][0]["address"].as_str().unwrap().parse().unwrap();
    let described = workspace.says(&["describe", "elasticjob", "quickstart"]);
    let line = described.lines().find(|line| line.starts_with("Master:")).unwrap();
    let master: SocketAddr = line.rsplit_once(' ').unwrap().1.parse().unwrap();

    for path in ["/api/status", "/api/datasets", "/api/position"] {
        assert_eq!(http::get(master, path).0, 401, "{path}");
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(async {
        let channel = tonic::transport::Channel::from_shared(format!("http://{server}")).unwrap();
        ParameterServerClient::new(channel.connect().await.unwrap()).snapshot(ps::OpenSnapshot::default()).await
    });
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "parameters cannot be read");
    let intruder: ProgramOutput = self::server(&["ps", "--name", "intruder", "--listen", "127.0.0.1:0"])
        .args(["--master", &master.to_string()])
        .output()
        .unwrap()
        .into();
    assert_ne!(intruder.code, 0);
    assert!(intruder.stderr.contains("does not carry the job's token"), "{}", intruder.stderr);

    let state = workspace.state_dir();
    let journal = fs::read_dir(state.path().join("masters")).unwrap().next().unwrap().unwrap().path();
    let private = [journal.clone(), workspace.folder.path().join("kept")];
    for folder in private {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for file in all_files(&folder) {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
    training.interrupt();
}

/// The same from another user, who may enter every folder above the state directory.
#[test]
fn another_user_reads_no_token_and_gets_in_nowhere() {
    if !geteuid().is_root() {
        skip!("only root can start a program as another user");
    }
    let workspace = Workspace::new();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(workspace.folder.path());
    let flexor = workspace.folder.path().join("flexor");
    fs::copy(bin(), &flexor).unwrap();
    let training = long().start(&workspace, &[]);
    training.until("servers", |status| status["servers"]["servers"][0]["address"].is_string());
    let described = workspace.says(&["describe", "elasticjob", "quickstart"]);
    let master = described.lines().find(|line| line.starts_with("Master:")).unwrap().rsplit_once(' ').unwrap().1;
    let as_nobody = |program: &Path, args: &[&str]| -> ProgramOutput {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program).args(args);
        command.current_dir("/").output().unwrap().into()
    };
    let token = workspace.state_dir().token("default", "quickstart");
    assert_eq!((mode(workspace.state_dir().path()), mode(&token)), (0o700, 0o600));
    let file = token.to_str().unwrap();
    assert_ne!(as_nobody(Path::new("cat"), &[file]).code, 0, "the token cannot be read");
    for more in [&[][..], &["--token-file", file]] {
        let args = [&["ps", "--master", master, "--name", "intruder", "--listen", "127.0.0.1:0"], more].concat();
        let refused = as_nobody(&flexor, &args);
        assert_ne!(refused.code, 0, "{more:?}");
        assert!(refused.stderr.contains("token"), "{}", refused.stderr);
    }
    let state_dir = workspace.state_dir().path().display().to_string();
    let refused = as_nobody(&flexor, &["get", "pods", "--state-dir", &state_dir]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains("belongs to user 0"), "{}", refused.stderr);
    training.interrupt();
}

#[test]
fn no_output_contains_the_token() {
    let cluster = BackgroundCluster::new();
    let workspace = &cluster.workspace;
    let manifests = ["one", "two"].map(|name| {
        let script = format!("echo token file $FLEXOR_TOKEN_FILE; {WAIT}");
        workspace.manifest(&job_of(name, 1, &script))
    });
    cluster.says(&["local", "up", &manifests[0], &manifests[1]]);
    ["one", "two"].iter().for_each(|job| drop(workspace.await_running(&format!("{job}-worker-0"))));
    let tokens = ["one", "two"].map(|job| workspace.token(job));
    assert!(tokens.iter().all(|token| token.len() == 32) && tokens[0] != tokens[1], "{tokens:?}");
    for job in ["one", "two"] {
        assert_eq!(mode(&workspace.state_dir().token("default", job)), 0o600);
    }
    let log = eventually("its path", || {
        Some(workspace.says(&["logs", "one-worker-0"])).filter(|log| log.contains("tokens/default.one"))
    });
    let mut shown = vec![log];
    for words in [
        &["get", "tej,pods", "-o", "yaml"][..],
        &["get", "tej,pods", "-o", "json"],
        &["describe", "tej"],
        &["describe", "pods"],
        &["describe", "tej", "one"],
        &["events"],
        &["why", "one"],
    ] {
        shown.push(workspace.says(words));
    }
    shown.extend(all_files(workspace.state_dir().path()).into_iter().filter_map(|file| {
        let is_token = file.parent().is_some_and(|folder| folder.ends_with("tokens"));
        if is_token { None } else { fs::read(file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) }
    }));
    assert!(shown.len() > 15, "there is something to look at: {}", shown.len());
    for text in shown {
        assert!(!tokens.iter().any(|token| text.contains(token)), "{text}");
    }
    workspace.folder.let_go();
    cluster.await_phase("one", "Succeeded");
    workspace.says(&["delete", "tej", "one"]);
    eventually("the end of its token", || workspace.token("one").is_empty().then_some(()));
    assert_eq!(workspace.token("two"), tokens[1]);
}

#[test]
fn a_resumed_job_keeps_its_token() {
    let cluster = BackgroundCluster::new();
    let manifest = cluster.workspace.manifest(&job_of("kept", 1, WAIT));
    cluster.says(&["local", "up", &manifest]);
    let pod = cluster.workspace.await_running("kept-worker-0");
    let token = cluster.workspace.token("kept");
    cluster.kill();
    cluster.says(&["local", "up"]);
    assert_eq!(cluster.workspace.token("kept"), token);
    // Its master, which outlived the cluster, takes the token of the new feed: the job ends as it should.
    cluster.workspace.folder.let_go();
    cluster.await_phase("kept", "Succeeded");
    drop(pod);
}

fn all_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(all_files(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
    files
}
