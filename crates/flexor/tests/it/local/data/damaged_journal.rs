//! Tests a master whose journal is damaged behind acknowledged records: it refuses to start, and with
//! `--accept-journal-loss` it tells how many records are open again.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::faults::master::{Master, Ports, master};
use super::api;

const RECORDS: u64 = 3000;
const BATCH: u64 = 10;

/// This incarnation of a worker leases and acknowledges up to `batches` batches, one by one. Returns how many records it
/// acknowledged.
fn train(master: SocketAddr, incarnation: u64, batches: u64) -> u64 {
    let dataset = json!({ "name": "d", "records": 2 * RECORDS, "batch": BATCH });
    assert_eq!(api::post(master, "datasets", &dataset).0, 200);
    let mut records = 0;
    for _ in 0..batches {
        let (status, lease) =
            api::post(master, "datasets/d/lease", &json!({ "worker": "w", "incarnation": incarnation, "batches": 1 }));
        assert_eq!(status, 200, "{lease}");
        let Some([batch]) = lease["batches"].as_array().map(Vec::as_slice) else { return records };
        let (lease, first) = (&lease["lease"], &batch["batch"]);
        let done = json!({ "worker": "w", "incarnation": incarnation, "lease": lease, "first": first, "count": 1 });
        let (status, answer) = api::post(master, "datasets/d/acknowledge", &done);
        assert_eq!(status, 200, "{answer}");
        records += BATCH;
    }
    records
}

fn totals(master: &Master) -> Value {
    master.status()["datasets"][0]["totals"].clone()
}

fn number(totals: &Value, name: &str) -> u64 {
    totals[name].as_u64().unwrap_or_else(|| panic!("{name} in {totals}"))
}

/// The only segment in a folder.
fn segment(state: &Path) -> PathBuf {
    let names = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let mut segments = names.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let segment = segments.next().unwrap();
    assert_eq!(segments.next(), None);
    segment
}

/// A folder of a killed master that acknowledged 3,000 of 6,000 records.
fn trained() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut master = Master::on(folder.path(), "1:1");
    assert_eq!(train(master.ports.grpc, 1, RECORDS / BATCH), RECORDS);
    master.end_with(nix::sys::signal::Signal::SIGKILL);
    folder
}

fn refusal(state: &Path) -> String {
    let output = master("1:1", Ports::free()).arg("--state").arg(state).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn accepting(state: &Path) -> Master {
    Master::run(master("1:1", Ports::free()).arg("--state").arg(state).arg("--accept-journal-loss"))
}

#[test]
fn damage_in_the_middle_is_refused_and_an_accepted_loss_is_counted() {
    let folder = trained();
    let file = segment(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 4;
    bytes[middle] ^= 0x10;
    fs::write(&file, &bytes).unwrap();

    let printed = refusal(folder.path());
    assert!(printed.contains("good facts behind it would be forgotten"), "{printed}");
    assert!(printed.contains("--accept-journal-loss"), "{printed}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is changed");

    let mut master = accepting(folder.path());
    let found = totals(&master);
    let (accounted, reopened) = (number(&found, "accounted"), number(&found, "reopenedAtMost"));
    assert!(accounted < RECORDS && accounted + reopened >= RECORDS, "{found}");
    assert!(accounted + reopened <= RECORDS + 64 * BATCH, "the count is no guess: {found}");
    assert_eq!(number(&found, "repeatedAtMost"), reopened, "{found}");
    let told = master.status()["journalLoss"].as_str().unwrap().to_owned();
    assert!(told.contains(&format!("at most {reopened} records are open again")), "{told}");
    assert!(master.log().contains("the journal is damaged"), "{}", master.log());
    let kept = file.with_extension("log.damaged");
    assert!(told.contains(kept.to_str().unwrap()), "{told}");
    assert_eq!(fs::read(&kept).unwrap(), bytes);

    // The worker was killed too.
    let again = train(master.ports.grpc, 2, u64::MAX);
    assert_eq!(accounted + again, 2 * RECORDS, "every record is accounted for in the end");
    let repeated = (accounted + again).saturating_sub(2 * RECORDS) + (RECORDS - accounted);
    assert!(number(&totals(&master), "repeatedAtMost") >= repeated);
    // The next master has no loss to tell of, and forgets nothing of this one.
    master.end_with(nix::sys::signal::Signal::SIGKILL);
    let master = Master::on(folder.path(), "1:1");
    assert_eq!(number(&totals(&master), "reopenedAtMost"), reopened);
    assert_eq!(master.status()["journalLoss"], Value::Null);
}

#[test]
fn a_torn_end_is_told_and_nothing_acknowledged_is_missing() {
    let folder = trained();
    let file = segment(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend_from_slice(&[40, 0, 0, 0, 1, 2, 3, 4, 2, 10]);
    fs::write(&file, &bytes).unwrap();
    let master = Master::on(folder.path(), "1:1");
    assert_eq!(number(&totals(&master), "accounted"), RECORDS);
    let told = master.status()["journalLoss"].as_str().unwrap().to_owned();
    assert!(told.contains("ends in an incomplete record of 10 bytes"), "{told}");
    assert_eq!(fs::read(file.with_extension("log.damaged")).unwrap(), bytes);
}

#[test]
fn an_empty_or_missing_journal_is_refused() {
    let folder = trained();
    let file = segment(folder.path());
    fs::write(&file, "").unwrap();
    let printed = refusal(folder.path());
    assert!(printed.contains("is missing or cut") && printed.contains("--accept-journal-loss"), "{printed}");
    fs::remove_file(&file).unwrap();
    let printed = refusal(folder.path());
    assert!(printed.contains("is missing or cut"), "{printed}");
    let master = accepting(folder.path());
    assert_eq!(master.generation(), 2, "clients refuse a generation that they have seen");
    let told = master.status()["journalLoss"].as_str().unwrap().to_owned();
    assert!(told.contains("every fact of the job is lost"), "{told}");
}
