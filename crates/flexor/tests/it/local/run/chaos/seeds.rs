//! A job of `examples/any-program` under three seeds: whatever was killed, stopped, full or late, no record is lost.

use std::fs;
use std::time::Duration;

use super::super::super::data::report::Written;
use super::super::cluster::Place;
use crate::program::root;

/// A machine under load is slow, and one under chaos is slower.
const PATIENCE: Duration = Duration::from_secs(170);
const RECORDS: u64 = 3000;

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
    let place = Place::new();
    longer_job(&place);
    let run = place.run(&["job.yaml", "--chaos", &format!("{seed},0.5")]).patient(PATIENCE);
    let ended = run.wait_for(0);
    let told = |text: &str| ended.stdout.lines().filter(|line| line.contains(text)).count();
    let (done, missed) = (told("ChaosAct: "), told(": missed, "));
    assert!(done - missed >= 3, "{}", ended.stdout);
    let written = Written::read(&place.folder);
    assert_eq!(written.records(), RECORDS, "{}", ended.stdout);
    let books = ended.stdout.lines().find(|line| line.trim_start().starts_with("records ")).unwrap();
    for told in [format!("{RECORDS} expected, {RECORDS} accounted for"), ", 0 lost".to_owned()] {
        assert!(books.contains(&told), "{told} is not in {books}");
    }
    println!("seed {seed}: {done} acts, {missed} of them missed; {} written again", written.repeats());
    assert!(place.folder.read("chaos.json").contains(&format!("\"seed\": {seed}")));
    place.assert_nothing_is_left_of(&[]);
}

/// The job of the README with more to do: eight seconds of work for its four processes, if nobody does them harm.
fn longer_job(place: &Place) {
    let text = fs::read_to_string(root().join("examples/any-program/job.yaml")).unwrap();
    let longer = text.replace(r#""1000", "10", "0.02""#, &format!(r#""{RECORDS}", "10", "0.1""#));
    assert_ne!(longer, text, "the manifest says how many records there are");
    fs::write(place.folder.path().join("job.yaml"), longer).unwrap();
}
