//! Tests a job of `examples/any-program` under three seeds: no record is lost, whatever the faults.

use std::fs;
use std::time::Duration;

use super::super::super::data::report::WrittenRecords;
use super::super::super::launch::folder::WAIT;
use super::super::cluster::Workspace;
use super::super::quickstart::running_job::injected_faults;
use crate::program::root;

/// A machine under load is slow, and one under chaos is slower.
const PATIENCE: Duration = Duration::from_secs(170);
const RECORDS: u64 = 3000;
/// How many faults must be injected before it may end.
const FAULTS: usize = 3;

#[test]
fn no_record_is_lost_under_seed_1() {
    ends_well_under(1);
}

#[test]
fn no_record_is_lost_under_seed_2() {
    ends_well_under(2);
}

#[test]
fn no_record_is_lost_under_seed_3() {
    ends_well_under(3);
}

fn ends_well_under(seed: u64) {
    let seed = flexor_seeds::or(seed);
    let workspace = Workspace::new();
    longer_job(&workspace);
    let run = workspace.run(&["job.yaml", "--chaos", &format!("{seed},0.5")]).patient(PATIENCE);
    run.await_or_explain("faults", || injected_faults(&run.stdout()) >= FAULTS);
    workspace.folder.let_go();
    let ended = run.wait_for(0);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!(written.records(), RECORDS, "{}", ended.stdout);
    let books = ended.stdout.lines().find(|line| line.trim_start().starts_with("records ")).unwrap();
    for message in [format!("{RECORDS} expected, {RECORDS} accounted for"), ", 0 lost".to_owned()] {
        assert!(books.contains(&message), "{message} is not in {books}");
    }
    println!("seed {seed}: {} faults; {} written again", injected_faults(&ended.stdout), written.repeats());
    assert!(workspace.folder.read("chaos.json").contains(&format!("\"seed\": {seed}")));
    workspace.assert_nothing_is_left_of(&[]);
}

/// The job of the example with more work: eight seconds for its four processes without faults. Afterwards they wait
/// until they may end.
fn longer_job(workspace: &Workspace) {
    let text = fs::read_to_string(root().join("examples/any-program/job.yaml")).unwrap();
    let command = r#"[sh, examples/any-program/worker.sh, out, "1000", "10", "0.02"]"#;
    let longer = format!(r#"[sh, -c, 'sh examples/any-program/worker.sh out {RECORDS} 10 0.1 && {{ {WAIT}; }}']"#);
    assert!(text.contains(command), "the manifest says {command}");
    let longer = text.replace(command, &longer);
    fs::write(workspace.folder.path().join("job.yaml"), longer).unwrap();
}
