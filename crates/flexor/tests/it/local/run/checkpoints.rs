//! Tests checkpoints of a job: a full disk, a damaged checkpoint, one of another model, and one of another job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use flexor_testbed::skip;
use serde_json::Value;

use super::cluster::Workspace;
use super::quickstart::running_job::{Training, is_settled, latest_checkpoint};
use super::quickstart::{PATIENCE, Quickstart};
use super::synchronous::{half_way, job, model, trained};
use crate::local::faults::process::{inside, server};
use crate::local::launch::launcher::Launcher;
use crate::program::ProgramOutput;

fn checkpoint(workspace: &Workspace, words: &[&str]) -> ProgramOutput {
    server(&[&["checkpoint"], words].concat()).current_dir(workspace.folder.path()).output().unwrap().into()
}

/// Fills a disk to the last byte.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(file).unwrap();
    let full = (0..1 << 16).find_map(|_| file.write_all(&[7; 1 << 12]).err()).expect("a small disk");
    assert_eq!(full.raw_os_error(), Some(nix::errno::Errno::ENOSPC as i32));
    while file.write_all(&[7]).is_ok() {}
}

#[test]
fn a_full_disk_leaves_the_checkpoint_before_and_the_next_is_written_when_there_is_room() {
    if !nix::unistd::geteuid().is_root() {
        skip!("mounting a small disk needs root");
    }
    let workspace = Workspace::new();
    let kept = workspace.folder.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let quickstart =
        Quickstart { checkpoints: Some("{ folder: kept, everySeconds: 1, keep: 2 }"), ..Quickstart::default() };
    quickstart.write(&workspace);
    // The disk is in the mount namespace of the cluster, and disappears with it.
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh"]);
    let script = r#"mount -t tmpfs -o size=64m tmpfs "$0" && exec "$@""#;
    let run = workspace.command(&["--ephemeral", "job.yaml", "--report", "report"]);
    let mut command = inside(shell, script, &kept, &run);
    let run = Launcher::start(command.current_dir(workspace.folder.path())).patient(PATIENCE);
    // It is the same process that has made the mount.
    let seen = PathBuf::from(format!("/proc/{}/root{}", run.id(), kept.display()));
    let training = Training::new(&workspace, run);

    training.no_further_than(quickstart.share(1, 5), "a checkpoint", |status| latest_checkpoint(status) > 0);
    let filler = seen.join("filler");
    fill(&filler);
    let failure = |status: &Value| status["servers"]["checkpoints"]["failure"].as_str().map(str::to_owned);
    training.no_further_than(quickstart.share(2, 5), "a failure", |status| {
        failure(status).is_some_and(|why| why.contains("No space left on device"))
    });
    let before = latest_checkpoint(&training.status());
    let accounted = training.accounted();
    training.reaches(accounted + quickstart.share(1, 10));
    // Further attempts fail, and their leftovers do not block the next one.
    let begun = Instant::now();
    let is_later = |_: &Value| begun.elapsed() >= Duration::from_secs(4);
    training.no_further_than(quickstart.share(3, 5), "more attempts", is_later);
    let unfinished = |folder: &PathBuf| folder.is_dir() && !folder.join("manifest.json").exists();
    let left = fs::read_dir(&seen).unwrap().map(|one| one.unwrap().path()).filter(unfinished).count();
    assert!(left <= 2, "{left} attempts are left");
    let shown = seen.to_str().unwrap();
    let message = checkpoint(&workspace, &["list", shown, "--verify"]);
    assert!(
        message.code == 0 && message.stdout.contains(&format!("\n{before} ")),
        "{}{}",
        message.stdout,
        message.stderr
    );

    fs::remove_file(&filler).unwrap();
    training.no_further_than(quickstart.share(4, 5), "the next checkpoint", |status| {
        latest_checkpoint(status) > before && failure(status).is_none()
    });
    quickstart.assert_all_is_well(&training.finish());
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_it_taken() {
    let alone = trained(&Workspace::new(), 2, 1);
    let workspace = Workspace::new();
    let (training, first) = half_way(&workspace);
    training.no_further_than(job(2, 2).share(3, 4), "another checkpoint", |status| latest_checkpoint(status) > first);
    training.interrupt();
    let folders = fs::read_dir(workspace.folder.path().join("kept")).unwrap().map(|folder| folder.unwrap().path());
    let latest = folders.filter(|folder| folder.join("manifest.json").exists()).max().unwrap();
    let files = fs::read_dir(latest).unwrap().map(|file| file.unwrap().path());
    let rows = files.into_iter().find(|file| file.extension().is_some_and(|it| it == "flx")).unwrap();
    let mut bytes = fs::read(&rows).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&rows, bytes).unwrap();

    let training = job(3, 1).start(&workspace, &[]);
    let master = workspace.await_running("elasticjob-quickstart-dlrover-master");
    training.no_further_than(job(3, 1).share(9, 10), "a word about it", |_| {
        let log = workspace.log(&master);
        log.contains("cannot read a checkpoint") && log.contains(rows.file_name().unwrap().to_str().unwrap())
    });
    let ended = training.ends_with(0).stdout;
    let message = |reason: &str| ended.lines().find(|line| line.contains(reason)).unwrap_or_else(|| panic!("{ended}"));
    assert!(
        message("CheckpointDamaged: a checkpoint is passed over: ")
            .contains(rows.file_name().unwrap().to_str().unwrap()),
        "{ended}"
    );
    let found = message("CheckpointFound: the job goes on from checkpoint ");
    assert!(found.contains(" in kept: ") && found.ends_with(" of 40050 records are done"), "{found}");
    assert!(model(&workspace) == alone, "it went on from the one before");
}

#[test]
fn a_checkpoint_of_another_model_is_refused_before_anything_is_trained() {
    let workspace = Workspace::new();
    let (training, _) = half_way(&workspace);
    training.interrupt();
    let before = checkpoint(&workspace, &["list", "kept", "-o", "json"]).stdout;
    let wider = Quickstart {
        words: r#", --grads-to-wait=4, "--optimizer=sgd:learning_rate=0.1", "--model=deepfm:dim=4""#,
        ..job(2, 1)
    };
    wider.write(&workspace);
    let manifest = fs::read_to_string(workspace.folder.path().join("job.yaml")).unwrap();
    fs::write(workspace.folder.path().join("job.yaml"), manifest.replace("--model=deepfm, ", "")).unwrap();
    let ended = workspace.run(&["job.yaml"]).patient(PATIENCE).wait_for(1);
    assert!(ended.stdout.contains("the job trains another model"), "{}", ended.stdout);
    assert!(ended.stdout.contains("table 'embedding': width 5 here, width 9 in the job"), "{}", ended.stdout);
    assert!(ended.stdout.contains("CriticalNodeFailed: ProgramRefused: exit code 78"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("retry"), "to try it again would change nothing: {}", ended.stdout);
    assert_eq!(checkpoint(&workspace, &["list", "kept", "-o", "json"]).stdout, before);
}

/// A killed server leaves an incomplete checkpoint, which does not count; the earlier ones are complete.
#[test]
fn a_server_that_is_killed_while_it_writes_leaves_the_checkpoints_before() {
    const KILLS: u32 = 2;
    let workspace = Workspace::new();
    let checkpoints = Some("{ folder: kept, everySeconds: 1 }");
    let quickstart = Quickstart { records: 1_500_000, checkpoints, replication_factor: 2, ..Quickstart::default() };
    let training = quickstart.start(&workspace, &[]);
    for nth in 1..=KILLS {
        training.no_further_than(quickstart.share(nth, KILLS + 1), "a checkpoint and all backups in sync", |status| {
            latest_checkpoint(status) > 0 && is_settled(status)
        });
        let writer = until_one_writes(&workspace.folder.path().join("kept"));
        let before = latest_checkpoint(&training.status());
        training.kill(&writer);
        let message = checkpoint(&workspace, &["list", "kept", "--verify", "-o", "json"]);
        let listed: Vec<Value> = serde_json::from_str(&message.stdout).unwrap();
        assert!(listed.iter().all(|one| one["damage"].is_null()), "{}", message.stdout);
        assert!(listed.iter().any(|one| one["number"].as_u64() >= Some(before)), "{before}: {}", message.stdout);
    }
    quickstart.assert_all_is_well(&training.finish());
}

/// Waits until a server has a file of an incomplete checkpoint, and names the server.
fn until_one_writes(folder: &Path) -> String {
    let names = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let files = names(folder).into_iter().flat_map(|checkpoint| names(&checkpoint));
        let halves = files.filter_map(|file| file.file_name()?.to_str().map(str::to_owned));
        let writer = |name: String| Some(name.strip_prefix("tables-")?.strip_suffix(".flx.half")?.to_owned());
        if let Some(writer) = halves.filter_map(writer).next() {
            return writer;
        }
    }
    panic!("no server writes a checkpoint");
}

/// A checkpoint converted from another job's has its parameters and no data position.
#[test]
fn a_job_that_starts_from_the_checkpoint_of_another_reads_all_of_its_data() {
    let workspace = Workspace::new();
    let alone = trained(&workspace, 2, 1);
    let first = fs::read_dir(workspace.folder.path().join("kept")).unwrap().count();
    let message = checkpoint(&workspace, &["convert", "kept", "other"]);
    assert!(message.code == 0 && message.stdout.contains("starts its data from the beginning"), "{}", message.stderr);
    fs::remove_dir_all(workspace.folder.path().join("kept")).unwrap();
    fs::rename(workspace.folder.path().join("other"), workspace.folder.path().join("kept")).unwrap();
    assert!(model(&workspace) == alone, "of {first} checkpoints the last one was taken");

    let training = job(3, 2).start(&workspace, &[]);
    let master = workspace.await_running("elasticjob-quickstart-dlrover-master");
    training.no_further_than(job(3, 2).share(9, 10), "a word about it", |_| {
        workspace.log(&master).contains("the checkpoint does not say which data was learnt: all of it is gone through")
    });
    let ended = training.ends_with(0);
    assert!(ended.stdout.contains(" in kept: the checkpoint does not say which data was learnt"), "{}", ended.stdout);
    assert!(ended.stdout.contains("40050 expected, 40050 accounted for"), "{}", ended.stdout);
    assert!(model(&workspace) != alone, "it has learnt more");
}
