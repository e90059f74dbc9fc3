//! `flexor checkpoint` and folders of checkpoints: what is refused, with which code, and what stays as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flexor_ps::checkpoint::{CheckpointId, Folder, Moment, write_manifest, write_part};
use flexor_ps::hosted::Hosted;
use flexor_ps::layout::Layout;
use flexor_ps::placement::PartitionId;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, VariableSpec};

use super::run::cluster::Place;
use super::run::quickstart::Quickstart;
use crate::program::{Ran, flexor};

/// A folder of its own, in which commands are run.
struct StateDir(tempfile::TempDir);

impl StateDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn says(&self, words: &[&str]) -> Ran {
        flexor(words).current_dir(self.0.path()).output().unwrap().into()
    }

    /// What is said of a wrong input, which ends with this code.
    fn refuses(&self, code: i32, words: &[&str]) -> String {
        let ran = self.says(words);
        assert_eq!(ran.code, code, "{words:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stdout.is_empty(), "{words:?}: {}", ran.stderr);
        ran.stderr
    }

    /// Everything that is there, by name.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(self.0.path()).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Writes a checkpoint of a small model that says nothing of the data.
fn write_checkpoint(folder: &Path, number: u64) {
    let variable = VariableSpec { name: "w".to_owned(), shape: vec![3], init: Initializer::Ones };
    let model = ModelSpec { variables: vec![variable], tables: Vec::new(), optimizer: Optimizer::sgd(0.1), seed: 1 };
    let (storage, id) = (Folder::new(folder), CheckpointId(number));
    let hosted = Hosted::new(Arc::clone(&Layout::new(model.clone()).unwrap()));
    hosted.make(PartitionId::all());
    let part = write_part(&storage, id, "ps-0", &hosted, Moment::OneByOne).unwrap();
    write_manifest(&storage, id, &model, vec![part], Vec::new()).unwrap();
}

#[test]
fn an_input_that_cannot_be_read_ends_with_1_and_wrong_words_with_2() {
    let state_dir = StateDir::new();
    fs::create_dir(state_dir.path("empty")).unwrap();
    fs::write(state_dir.path("file"), "no folder").unwrap();
    write_checkpoint(&state_dir.path("kept"), 3);
    for words in [
        &["checkpoint", "list", "missing"][..],
        &["checkpoint", "list", "file"],
        &["checkpoint", "export", "missing", "out"],
        &["checkpoint", "export", "empty", "out"],
        &["checkpoint", "export", "kept", "out", "--number", "4"],
        &["checkpoint", "convert", "missing", "to"],
        &["checkpoint", "convert", "empty", "to"],
        &["checkpoint", "convert", "kept", "file"],
        &["checkpoint", "convert", "kept", "kept"],
    ] {
        state_dir.refuses(1, words);
    }
    let sgd = ["--opt-type", "SGD", "--opt-args"];
    let wrong = [&["checkpoint", "convert", "kept", "to"][..], &sgd, &["learning_rate=fast"]].concat();
    assert!(state_dir.refuses(2, &wrong).contains("--opt-args 'learning_rate=fast': "));
    assert_eq!(state_dir.names(), ["empty", "file", "kept"], "nothing was written");
    let damaged = state_dir.path("kept/checkpoint-000000000003/manifest.json");
    fs::write(&damaged, "{").unwrap();
    assert!(state_dir.refuses(1, &["checkpoint", "export", "kept", "out"]).contains("is damaged"));
    // A place that takes nothing is no bad input.
    write_checkpoint(&state_dir.path("other"), 3);
    state_dir.refuses(3, &["checkpoint", "export", "other", "file/out"]);
    state_dir.refuses(3, &["checkpoint", "export", "other", "empty"]);
}

#[test]
fn a_folder_without_checkpoints_is_told_from_one_that_is_not_there() {
    let state_dir = StateDir::new();
    fs::create_dir(state_dir.path("empty")).unwrap();
    fs::create_dir_all(state_dir.path("begun/checkpoint-000000000001")).unwrap();
    fs::write(state_dir.path("data.csv"), "").unwrap();
    let list = |folder: &str| state_dir.says(&["checkpoint", "list", folder]);
    assert_eq!((list("empty").code, list("empty").stdout.as_str()), (0, "no checkpoints in empty\n"));
    assert_eq!(list("begun").stdout, "no checkpoint in begun is complete: 1 not finished\n");
    assert_eq!(state_dir.says(&["checkpoint", "list", "empty", "-o", "json"]).stdout, "[]\n");
    let missing = "error: there is no folder nope; give the folder of spec.flexor.checkpoints.folder\n";
    let predict = |folder: &'static str| {
        ["predict", "--model", "deepfm", "--checkpoints", folder, "--data", "data.csv", "--out", "-"]
    };
    assert_eq!(state_dir.refuses(1, &["checkpoint", "list", "nope"]), missing);
    assert_eq!(state_dir.refuses(1, &predict("nope")), missing);
    assert_eq!(state_dir.refuses(1, &predict("empty")), "error: no checkpoints in empty\n");
    assert_eq!(state_dir.refuses(1, &["checkpoint", "export", "empty", "out"]), "error: no checkpoints in empty\n");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_that_is_told() {
    let state_dir = StateDir::new();
    for number in [3, 4, 5] {
        write_checkpoint(&state_dir.path("kept"), number);
    }
    let damaged = "checkpoint-000000000005/manifest.json";
    fs::write(state_dir.path("kept").join(damaged), "{").unwrap();
    for (words, wrote) in [
        (&["checkpoint", "export", "kept", "model.safetensors"][..], "wrote model.safetensors of checkpoint 4\n"),
        (&["checkpoint", "convert", "kept", "other"], "wrote checkpoint 4 to other;"),
    ] {
        let ran = state_dir.says(words);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.starts_with(wrote), "{}", ran.stdout);
        assert!(
            ran.stderr.starts_with("warning: checkpoint") && ran.stderr.contains("5 is skipped: "),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(damaged) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    // One that is asked for is not replaced by another.
    let told = state_dir.refuses(1, &["checkpoint", "export", "kept", "out", "--number", "5"]);
    assert!(told.contains("is damaged"), "{told}");
}

#[test]
fn a_server_for_elasticdl_that_is_started_wrongly_ends_with_78_and_one_with_wrong_files_with_1() {
    let state_dir = StateDir::new();
    fs::write(state_dir.path("file"), "no folder").unwrap();
    let ps = |more: &[&'static str]| [&["ps", "--elasticdl", "--listen", "127.0.0.1:0"], more].concat();
    let sgd = ["--opt_type", "SGD", "--opt_args", "learning_rate=0.1;momentum=0.0;nesterov=False"];
    for (code, words, told) in [
        (78, ps(&["--opt_type", "SGD", "--opt_args", "learning_rate=x"]), "learning_rate"),
        (78, ps(&["--opt_type", "Lion", "--opt_args", "learning_rate=1"]), "no optimizer 'Lion'"),
        (78, ps(&[]), "needs --opt-type and --opt-args"),
        (78, [ps(&sgd), vec!["--ps_id", "3"]].concat(), "numbered from 0"),
        (1, [ps(&sgd), vec!["--checkpoint_dir_for_init", "missing"]].concat(), "missing"),
        (
            1,
            [ps(&sgd), vec!["--checkpoint_dir", "file", "--checkpoint_steps", "9"]].concat(),
            "--checkpoint-dir file cannot be written",
        ),
    ] {
        let ran = state_dir.says(&words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.matches("os error").count() <= 1, "{}", ran.stderr);
    }
}

#[test]
fn what_is_written_takes_no_name_that_somebody_may_use() {
    let state_dir = StateDir::new();
    write_checkpoint(&state_dir.path("kept"), 3);
    fs::write(state_dir.path("model.half"), "somebody's").unwrap();
    fs::create_dir(state_dir.path("other.half")).unwrap();
    for out in ["model.safetensors", "model.half.safetensors", "other.safetensors"] {
        let ran = state_dir.says(&["checkpoint", "export", "kept", out]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(state_dir.path("model.half")).unwrap(), "somebody's");
    let all = ["kept", "model.half", "model.half.safetensors", "model.safetensors", "other.half", "other.safetensors"];
    assert_eq!(state_dir.names(), all);
}

#[test]
fn predictions_that_come_to_nothing_leave_nothing_behind() {
    let state_dir = StateDir::new();
    write_checkpoint(&state_dir.path("kept"), 3);
    fs::write(state_dir.path("out.half"), "somebody's").unwrap();
    fs::write(state_dir.path("out.csv"), "the last ones").unwrap();
    let words = ["predict", "--model", "deepfm", "--checkpoints", "kept", "--data", "missing.csv", "--out", "out.csv"];
    let told = state_dir.refuses(1, &words);
    assert_eq!(told.matches("os error 2").count(), 1, "{told}");
    assert_eq!(state_dir.names(), ["kept", "out.csv", "out.half"]);
    assert_eq!(fs::read_to_string(state_dir.path("out.csv")).unwrap(), "the last ones");
    assert_eq!(fs::read_to_string(state_dir.path("out.half")).unwrap(), "somebody's");
}

#[test]
fn a_checkpoint_is_not_converted_into_the_folder_that_it_lies_in() {
    let state_dir = StateDir::new();
    write_checkpoint(&state_dir.path("kept"), 3);
    symlink("kept", state_dir.path("link")).unwrap();
    let one = "kept/checkpoint-000000000003";
    for (from, to) in [("kept", "kept"), ("kept", "link"), ("link", "./kept/"), (one, "kept"), (one, "link")] {
        let told = state_dir.refuses(1, &["checkpoint", "convert", from, to]);
        assert!(told.contains("name another folder to write into"), "{told}");
    }
    assert_eq!(fs::read_dir(state_dir.path("kept")).unwrap().count(), 1);
}

#[test]
fn a_checkpoint_that_is_converted_again_keeps_its_number() {
    let state_dir = StateDir::new();
    // As it is written of version 40 of another system.
    write_checkpoint(&state_dir.path("first"), 40);
    for (from, to) in [("first", "second"), ("second", "third")] {
        let ran = state_dir.says(&["checkpoint", "convert", from, to]);
        assert!(ran.stdout.starts_with(&format!("wrote checkpoint 40 to {to};")), "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_folder_for_checkpoints_that_is_a_file_is_refused_before_anything_starts() {
    let place = Place::new();
    let kept = place.folder.path().join("kept");
    fs::write(&kept, "in the way").unwrap();
    for folder in ["kept", "kept/below"] {
        let checkpoints = format!("{{ folder: {folder} }}");
        Quickstart { checkpoints: Some(&checkpoints), ..Quickstart::default() }.write(&place);
        let ended = place.run(&["job.yaml"]).wait_for(1);
        let told = format!("error: spec.flexor.checkpoints.folder: {}", place.folder.path().join(folder).display());
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
        assert!(ended.stderr.contains("is a file; name a folder that can be written"), "{}", ended.stderr);
        assert!(!place.folder.path().join("quickstart.csv").exists(), "no pod was started");
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), "in the way");
}
