//! Tests state directories with a damaged file: the file is named, everything else goes on, and `flexor local down` ends
//! what runs.

use std::fs;
use std::path::{Path, PathBuf};

use flexor_local::proc;
use nix::sys::signal::Signal;

use super::super::super::program::ProgramOutput;
use super::super::data::report::WrittenRecords;
use super::super::faults::deadline::eventually;
use super::super::faults::process::server;
use super::super::launch::launcher::{Launcher, await_gone};
use super::cluster::{LocalPod, Workspace, job_of};
use super::endings::ANY_PROGRAM;

fn killed(run: Launcher) {
    run.signal(Signal::SIGKILL);
    assert_eq!(run.wait().code, None);
}

/// A killed run of the example whose pods go on.
fn left_behind() -> (Workspace, Vec<LocalPod>) {
    let workspace = Workspace::new();
    let run = workspace.run_for_good(&[ANY_PROGRAM]);
    workspace.await_records(100);
    killed(run);
    let pods = workspace.pods();
    assert_eq!(pods.len(), 3);
    (workspace, pods)
}

fn worker(pods: &[LocalPod]) -> &LocalPod {
    pods.iter().find(|pod| pod.name.ends_with("worker-0")).unwrap()
}

/// Cuts a file in its middle.
fn cut(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_pod_whose_metadata_is_cut_is_a_lost_pod() {
    let (workspace, pods) = left_behind();
    let lost = worker(&pods);
    let meta = workspace.state_dir().pod(&lost.status.uid).path().join("meta.json");
    cut(&meta);
    let ended = workspace.run_for_good(&["--resume"]).wait_for(0);
    assert!(ended.stderr.contains("meta.json: it is cut"), "{}", ended.stderr);
    assert!(!proc::is_alive(lost.status.supervisor), "it would run beside its replacement");
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000, "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_status_that_is_empty_is_written_again_by_its_supervisor() {
    let (workspace, pods) = left_behind();
    let status = workspace.state_dir().pod(&worker(&pods).status.uid).status_path().to_owned();
    fs::write(&status, "").unwrap();
    let ended = workspace.run_for_good(&["--resume"]).wait_for(0);
    assert!(ended.stderr.contains(".json: it is empty"), "{}", ended.stderr);
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000, "{}", ended.stdout);
    workspace.assert_nothing_is_left_of(&[]);
}

/// A killed run of the jobs `bad`, whose file is cut then, and `good`, which ends when a file `end` appears. The pod of the
/// bad one.
fn one_cut_job() -> (Workspace, PathBuf, LocalPod) {
    let workspace = Workspace::new();
    let bad = workspace.manifest(&job_of("bad", 1, "while :; do sleep 0.05; done"));
    let good = workspace.manifest(&job_of("good", 1, "while [ ! -e end ]; do sleep 0.05; done"));
    let run = workspace.run_for_good(&[&bad, &good]);
    let unmanaged = workspace.await_running("bad-worker-0");
    workspace.await_running("good-worker-0");
    killed(run);
    let file = workspace.state_dir().jobs().join("default.bad.json");
    cut(&file);
    (workspace, file, unmanaged)
}

/// Nothing of the bad job runs, and its file is kept.
fn assert_put_aside(file: &Path, unmanaged: &LocalPod) {
    eventually("the end of its pod", || (!proc::is_alive(unmanaged.status.supervisor)).then_some(()));
    assert!(PathBuf::from(format!("{}.damaged", file.display())).exists() && !file.exists());
}

#[test]
fn a_job_file_that_is_cut_harms_no_other_job() {
    let (workspace, file, unmanaged) = one_cut_job();
    // A new run does not start over it.
    let refused = workspace.run_for_good(&["good.json"]).wait_for(1);
    assert!(refused.stderr.contains("default.bad.json cannot be read"), "{}", refused.stderr);
    fs::write(workspace.folder.path().join("end"), "").unwrap();
    let ended = workspace.run_for_good(&["--resume"]).wait_for(0);
    assert!(ended.stderr.contains("default.bad.json: it is cut"), "{}", ended.stderr);
    assert!(ended.stdout.contains("good: Succeeded"), "{}", ended.stdout);
    assert_put_aside(&file, &unmanaged);
}

#[test]
fn down_ends_the_pods_of_a_job_that_cannot_be_read() {
    let (workspace, file, unmanaged) = one_cut_job();
    let down = |args: &[&str]| -> ProgramOutput {
        let mut command = server(&["local", "down", "--state-dir", "home"]);
        command.args(args).current_dir(workspace.folder.path()).output().unwrap().into()
    };
    let ended = down(&["--now"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("default.bad.json: it is cut"), "{}", ended.stderr);
    assert_put_aside(&file, &unmanaged);
    assert!(down(&[]).stdout.contains("no laptop cluster is up"));
}

#[test]
fn a_damaged_journal_is_accepted_by_resume_and_counted_in_events_and_summary() {
    let (workspace, pods) = left_behind();
    let master = pods.iter().find(|pod| pod.name.ends_with("-master")).unwrap();
    let main = master.main_id().unwrap();
    nix::sys::signal::kill(master.supervisor(), Signal::SIGKILL).unwrap();
    // The supervisor may have ended it already.
    let _ = nix::sys::signal::kill(main, Signal::SIGKILL);
    await_gone(&main.as_raw().to_string());
    let masters = fs::read_dir(workspace.state_dir().path().join("masters")).unwrap();
    let folder = masters.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&segment, &bytes).unwrap();

    let refused = workspace.run_for_good(&["--resume"]).wait_for(1);
    assert!(refused.stderr.contains("good facts behind it would be forgotten"), "{}", refused.stderr);
    assert!(refused.stderr.contains("flexor run --resume --accept-journal-loss"), "{}", refused.stderr);
    assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing is changed");

    let ended = workspace.run_for_good(&["--resume", "--accept-journal-loss"]).wait_for(0);
    assert!(ended.stdout.contains("JournalDamaged"), "{}", ended.stdout);
    assert!(ended.stdout.contains("of them because the journal was damaged"), "{}", ended.stdout);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!(written.records(), 1000, "{}", ended.stdout);
}
