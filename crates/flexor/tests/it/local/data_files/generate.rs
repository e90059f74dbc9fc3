//! Tests of `flexor data gen`.

use nix::sys::signal::Signal;

use super::super::launch::launcher::Launcher;
use super::*;

#[test]
fn a_click_log_is_the_same_for_the_same_seed_and_its_best_auc_is_printed() {
    let folder = Folder::new();
    let shown = folder.done(&["gen", "clicks", "--out", "clicks.csv", "--records", "20000", "--test-records", "5000"]);
    insta::assert_snapshot!(shown);
    let truth = std::fs::read_to_string(folder.path("clicks.truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&truth).unwrap();
    let best = truth["best_auc"].as_f64().unwrap();
    assert!((0.77..0.83).contains(&best), "{truth}");
    assert_eq!(truth["files"][1]["best_auc"].as_f64(), Some(best));
    let data = std::fs::read_to_string(folder.path("clicks.csv")).unwrap();
    assert!(data.starts_with("label,n0,n1,n2,n3,c0,c1,c2,c3,c4,c5,c6,c7,c8,c9\n"), "{}", &data[..100]);
    assert_eq!(data.lines().count(), 20_001);

    folder.done(&["gen", "clicks", "--out", "again.csv", "--records", "20000", "--test-records", "5000"]);
    assert_eq!(data, std::fs::read_to_string(folder.path("again.csv")).unwrap());
    folder.done(&["gen", "clicks", "--out", "other.csv", "--records", "25000", "--seed", "2"]);
    assert_ne!(data, std::fs::read_to_string(folder.path("other.csv")).unwrap());
    // The test records are those with which a longer log continues.
    folder.done(&["gen", "clicks", "--out", "longer.csv", "--records", "25000"]);
    let longer = std::fs::read_to_string(folder.path("longer.csv")).unwrap();
    let test = std::fs::read_to_string(folder.path("clicks-test.csv")).unwrap();
    assert_eq!(longer.strip_prefix(&data), test.split_once('\n').map(|(_, records)| records));
}

#[test]
fn no_file_is_overwritten_without_the_option() {
    let folder = Folder::new();
    let gen_census = |more: &[&str]| {
        folder.data(
            &[&["gen", "census", "--out", "census.csv", "--records", "100", "--test-records", "50"], more].concat(),
        )
    };
    assert_eq!(gen_census(&[]).code, 0);
    let first = std::fs::read(folder.path("census.csv")).unwrap();
    let refused = gen_census(&["--seed", "2"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("census.csv exists already") && refused.stderr.contains("--force"));
    assert_eq!(std::fs::read(folder.path("census.csv")).unwrap(), first);
    assert_eq!(gen_census(&["--seed", "2", "--force"]).code, 0);
    assert_ne!(std::fs::read(folder.path("census.csv")).unwrap(), first);
    // Only a file that is not in the way of others is written.
    std::fs::remove_file(folder.path("census.csv")).unwrap();
    assert_eq!(gen_census(&[]).code, 1);
    assert!(!folder.path("census.csv").exists());
}

#[test]
fn a_disk_that_refuses_is_not_the_users_mistake() {
    let folder = Folder::new();
    std::fs::write(folder.path("file"), "").unwrap();
    let ran = folder.data(&["gen", "clicks", "--out", "file/clicks.csv", "--records", "10"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let ran = folder.data(&["gen", "clicks", "--out", "clicks", "--records", "10"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("give the format with --format"), "{}", ran.stderr);
}

#[test]
fn digits_are_images_for_readers_of_mnist() {
    let folder = Folder::new();
    let shown = folder.done(&["gen", "digits", "--out", "d", "--records", "300", "--test-records", "20"]);
    assert!(shown.contains("d-images-idx3-ubyte: 300 records") && shown.contains("best accuracy 1.00"), "{shown}");
    let labels = std::fs::read(folder.path("d-test-labels-idx1-ubyte")).unwrap();
    assert_eq!((labels.len(), &labels[..8]), (28, &[0, 0, 8, 1, 0, 0, 0, 20][..]));
    assert_eq!(std::fs::metadata(folder.path("d-images-idx3-ubyte")).unwrap().len(), 16 + 300 * 784);

    folder.done(&["gen", "digits", "--out", "r.recordio", "--records", "300"]);
    let message = folder.json(&["inspect", "-o", "json", "r.recordio", "--head", "1"]);
    assert_eq!((&message["format"], &message["records"]), (&"recordio".into(), &300.into()));
    let expected = format!("image=784 floats label={}", std::fs::read(folder.path("d-labels-idx1-ubyte")).unwrap()[8]);
    assert_eq!(message["head"][0], expected);
}

/// An unfinished file grows beside its destination, under a temporary name.
fn halves(folder: &Folder) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.path(".")).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "half")).collect()
}

#[test]
fn an_interrupt_leaves_no_partial_file() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 1)] {
        let folder = Folder::new();
        let mut command = flexor(&["data", "gen", "clicks", "--out", "clicks.csv", "--records", "1000000000"]);
        let made = Launcher::start(command.current_dir(folder.path(".")));
        made.await_or_explain("a file that grows", || {
            halves(&folder).iter().any(|half| half.metadata().unwrap().len() > 0)
        });
        made.signal(signal);
        assert_eq!(made.wait().code, Some(code));
        assert_eq!(std::fs::read_dir(folder.path(".")).unwrap().count(), 0, "{signal}");
    }
}

#[test]
fn a_second_generator_waits_for_the_first_and_names_the_file() {
    let folder = Folder::new();
    let words = ["data", "gen", "clicks", "--out", "clicks.csv", "--records", "100"];
    folder.done(&words[1..]);
    let truth = std::fs::read(folder.path("clicks.truth.json")).unwrap();
    std::fs::remove_file(folder.path("clicks.truth.json")).unwrap();
    let mut command = flexor(&[&words[..], &["--if-missing"]].concat());
    let waits = Launcher::start(command.current_dir(folder.path(".")));
    let message = "clicks.csv exists, clicks.truth.json does not: waiting up to 5 s for another writer";
    waits.await_or_explain("a word", || waits.stderr().contains(message));
    std::fs::write(folder.path("half"), truth).unwrap();
    std::fs::rename(folder.path("half"), folder.path("clicks.truth.json")).unwrap();
    let ended = waits.wait_for(0);
    assert!(ended.stderr.contains("another process has written clicks.csv"), "{}", ended.stderr);
}

#[test]
fn data_made_with_other_options_is_refused() {
    let folder = Folder::new();
    let made = ["gen", "clicks", "--out", "clicks.csv", "--records", "100", "--test-records", "10"];
    folder.done(&made);
    let again = |words: &[&str]| folder.data(&[words, &["--if-missing"]].concat());
    let same = again(&made);
    assert_eq!((same.code, same.stderr.trim()), (0, "clicks.csv exists already"));
    let other = again(&["gen", "clicks", "--out", "clicks.csv", "--records", "200", "--seed", "7"]);
    assert_eq!(other.code, 1);
    insta::assert_snapshot!(other.stderr);
    let another = again(&["gen", "census", "--out", "clicks.csv", "--records", "100", "--test-records", "10"]);
    assert!(another.code == 1 && another.stderr.contains("as clicks, not census;"), "{}", another.stderr);
    std::fs::remove_file(folder.path("clicks-test.csv")).unwrap();
    let part = again(&made);
    assert!(part.code == 1 && part.stderr.contains("clicks-test.csv is missing"), "{}", part.stderr);
}

#[test]
fn existing_data_without_a_description_is_used_with_a_warning() {
    let folder = Folder::new();
    let words = ["gen", "clicks", "--out", "clicks.csv", "--records", "100", "--if-missing"];
    std::fs::write(folder.path("clicks.csv"), "mine\n").unwrap();
    let ran = folder.data(&words);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let message = "warning: there is no clicks.truth.json: the options of clicks.csv are unknown";
    assert!(ran.stderr.contains(message), "{}", ran.stderr);
    std::fs::write(folder.path("clicks.truth.json"), "{}").unwrap();
    let ran = folder.data(&words);
    assert!(ran.code == 0 && ran.stderr.contains("warning: clicks.truth.json cannot be read"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(folder.path("clicks.csv")).unwrap(), "mine\n");
}

#[test]
fn images_are_also_made_once() {
    let folder = Folder::new();
    let words = ["gen", "digits", "--out", "d", "--records", "30", "--if-missing"];
    folder.done(&words);
    let again = folder.data(&words);
    assert_eq!((again.code, again.stderr.trim()), (0, "d exists already"));
}

#[test]
fn images_are_made_as_a_folder_of_files() {
    let folder = Folder::new();
    let words =
        ["gen", "digits", "--out", "mnist", "--records", "25", "--test-records", "5", "--records-per-file", "10"];
    let printed = folder.done(&words);
    assert!(printed.starts_with("mnist: 25 records\nmnist-test: 5 records\n"), "{printed}");
    let files: Vec<String> = ["mnist", "mnist-test"]
        .iter()
        .flat_map(|name| std::fs::read_dir(folder.path(name)).unwrap())
        .map(|entry| entry.unwrap().path().strip_prefix(folder.path("")).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(files.len(), 4, "{files:?}");
    assert_eq!(folder.json(&["inspect", "-o", "json", "mnist"])["records"], 25);
    let again = folder.data(&[&words[..], &["--if-missing"]].concat());
    assert_eq!((again.code, again.stderr.trim()), (0, "mnist exists already"));
    let other =
        folder.data(&["gen", "digits", "--out", "mnist", "--records", "25", "--test-records", "5", "--if-missing"]);
    assert!(other.code == 1 && other.stderr.contains("--records-per-file 10, not without"), "{}", other.stderr);
    let idx = folder.data(&["gen", "digits", "--out", "d", "--records-per-file", "10", "--format", "idx"]);
    assert_eq!(
        (idx.code, idx.stderr.as_str()),
        (1, "error: --records-per-file makes RecordIO; leave out --format idx\n")
    );
}
