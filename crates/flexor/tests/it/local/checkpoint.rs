//! Tests `flexor checkpoint` and checkpoint folders: refused inputs, their exit codes, and files that stay unchanged.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flexor_ps::checkpoint::{CheckpointCut, CheckpointId, DirectoryStorage, write_manifest, write_part};
use flexor_ps::hosted::HostedPartitions;
use flexor_ps::layout::Layout;
use flexor_ps::placement::PartitionId;
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, VariableSpec};

use super::faults::deadline::{PATIENCE, eventually};
use super::run::cluster::Workspace;
use super::run::quickstart::Quickstart;
use crate::program::{ProgramOutput, flexor};

/// A folder in which the test runs commands.
struct WorkingFolder(tempfile::TempDir);

impl WorkingFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn says(&self, words: &[&str]) -> ProgramOutput {
        flexor(words).current_dir(self.0.path()).output().unwrap().into()
    }

    /// The message for a wrong input, with this exit code.
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

/// Writes a checkpoint of a small model without a data position.
fn write_checkpoint(folder: &Path, number: u64) {
    let variable = VariableSpec { name: "w".to_owned(), shape: vec![3], init: Initializer::Ones };
    let model = ModelSpec { variables: vec![variable], tables: Vec::new(), optimizer: Optimizer::sgd(0.1), seed: 1 };
    let (storage, id) = (DirectoryStorage::new(folder), CheckpointId(number));
    let hosted = HostedPartitions::new(Arc::clone(&Layout::new(model.clone()).unwrap()));
    hosted.make(PartitionId::all());
    let part = write_part(&storage, id, "ps-0", &hosted, CheckpointCut::PerPartition).unwrap();
    write_manifest(&storage, id, &model, vec![part], Vec::new()).unwrap();
}

#[test]
fn an_unreadable_input_exits_with_1_and_a_wrong_argument_with_2() {
    let working = WorkingFolder::new();
    fs::create_dir(working.path("empty")).unwrap();
    fs::write(working.path("file"), "no folder").unwrap();
    write_checkpoint(&working.path("kept"), 3);
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
        working.refuses(1, words);
    }
    let sgd = ["--opt-type", "SGD", "--opt-args"];
    let wrong = [&["checkpoint", "convert", "kept", "to"][..], &sgd, &["learning_rate=fast"]].concat();
    assert!(working.refuses(2, &wrong).contains("--opt-args 'learning_rate=fast': "));
    assert_eq!(working.names(), ["empty", "file", "kept"], "nothing was written");
    let damaged = working.path("kept/checkpoint-000000000003/manifest.json");
    fs::write(&damaged, "{").unwrap();
    assert!(working.refuses(1, &["checkpoint", "export", "kept", "out"]).contains("is damaged"));
    // An unwritable destination is not a wrong input.
    write_checkpoint(&working.path("other"), 3);
    working.refuses(3, &["checkpoint", "export", "other", "file/out"]);
    working.refuses(3, &["checkpoint", "export", "other", "empty"]);
}

#[test]
fn a_fifo_in_place_of_a_file_is_refused_and_not_waited_for() {
    let working = WorkingFolder::new();
    write_checkpoint(&working.path("kept"), 3);
    let file = working.path("kept/checkpoint-000000000003/manifest.json");
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut export = flexor(&["checkpoint", "export", "kept", "out"]);
    let mut export = export.current_dir(working.0.path()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let began = std::time::Instant::now();
    let ended = eventually("the end of the export", || {
        let ended = export.try_wait().unwrap();
        if ended.is_none() && began.elapsed() > PATIENCE / 2 {
            export.kill().unwrap();
        }
        ended
    });
    let mut printed = String::new();
    export.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(ended.code(), Some(1), "{printed}");
    assert!(printed.contains("no regular file"), "{printed}");
}

#[test]
fn a_folder_without_checkpoints_and_a_missing_folder_get_different_messages() {
    let working = WorkingFolder::new();
    fs::create_dir(working.path("empty")).unwrap();
    fs::create_dir_all(working.path("begun/checkpoint-000000000001")).unwrap();
    fs::write(working.path("data.csv"), "").unwrap();
    let list = |folder: &str| working.says(&["checkpoint", "list", folder]);
    assert_eq!((list("empty").code, list("empty").stdout.as_str()), (0, "no checkpoints in empty\n"));
    assert_eq!(list("begun").stdout, "no checkpoint in begun is complete: 1 not finished\n");
    assert_eq!(working.says(&["checkpoint", "list", "empty", "-o", "json"]).stdout, "[]\n");
    let missing = "error: there is no folder nope; give the folder of spec.flexor.checkpoints.folder\n";
    let predict = |folder: &'static str| {
        ["predict", "--model", "deepfm", "--checkpoints", folder, "--data", "data.csv", "--out", "-"]
    };
    assert_eq!(working.refuses(1, &["checkpoint", "list", "nope"]), missing);
    assert_eq!(working.refuses(1, &predict("nope")), missing);
    assert_eq!(working.refuses(1, &predict("empty")), "error: no checkpoints in empty\n");
    assert_eq!(working.refuses(1, &["checkpoint", "export", "empty", "out"]), "error: no checkpoints in empty\n");
}

#[test]
fn a_damaged_checkpoint_is_skipped_with_a_message() {
    let working = WorkingFolder::new();
    for number in [3, 4, 5] {
        write_checkpoint(&working.path("kept"), number);
    }
    let damaged = "checkpoint-000000000005/manifest.json";
    fs::write(working.path("kept").join(damaged), "{").unwrap();
    for (words, wrote) in [
        (&["checkpoint", "export", "kept", "model.safetensors"][..], "wrote model.safetensors of checkpoint 4\n"),
        (&["checkpoint", "convert", "kept", "other"], "wrote checkpoint 4 to other;"),
    ] {
        let ran = working.says(words);
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
    let message = working.refuses(1, &["checkpoint", "export", "kept", "out", "--number", "5"]);
    assert!(message.contains("is damaged"), "{message}");
}

#[test]
fn a_server_for_elasticdl_that_is_started_wrongly_ends_with_78_and_one_with_wrong_files_with_1() {
    let working = WorkingFolder::new();
    fs::write(working.path("file"), "no folder").unwrap();
    let ps = |more: &[&'static str]| [&["ps", "--elasticdl", "--listen", "127.0.0.1:0"], more].concat();
    let sgd = ["--opt_type", "SGD", "--opt_args", "learning_rate=0.1;momentum=0.0;nesterov=False"];
    for (code, words, message) in [
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
        let ran = working.says(&words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.matches("os error").count() <= 1, "{}", ran.stderr);
    }
}

#[test]
fn temporary_files_never_take_the_name_of_a_user_file() {
    let working = WorkingFolder::new();
    write_checkpoint(&working.path("kept"), 3);
    fs::write(working.path("model.half"), "somebody's").unwrap();
    fs::create_dir(working.path("other.half")).unwrap();
    for out in ["model.safetensors", "model.half.safetensors", "other.safetensors"] {
        let ran = working.says(&["checkpoint", "export", "kept", out]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(working.path("model.half")).unwrap(), "somebody's");
    let all = ["kept", "model.half", "model.half.safetensors", "model.safetensors", "other.half", "other.safetensors"];
    assert_eq!(working.names(), all);
}

#[test]
fn failed_predictions_leave_no_file_behind() {
    let working = WorkingFolder::new();
    write_checkpoint(&working.path("kept"), 3);
    fs::write(working.path("out.half"), "somebody's").unwrap();
    fs::write(working.path("out.csv"), "the last ones").unwrap();
    let words = ["predict", "--model", "deepfm", "--checkpoints", "kept", "--data", "missing.csv", "--out", "out.csv"];
    let message = working.refuses(1, &words);
    assert_eq!(message.matches("os error 2").count(), 1, "{message}");
    assert_eq!(working.names(), ["kept", "out.csv", "out.half"]);
    assert_eq!(fs::read_to_string(working.path("out.csv")).unwrap(), "the last ones");
    assert_eq!(fs::read_to_string(working.path("out.half")).unwrap(), "somebody's");
}

#[test]
fn a_checkpoint_is_not_converted_into_the_folder_that_it_lies_in() {
    let working = WorkingFolder::new();
    write_checkpoint(&working.path("kept"), 3);
    symlink("kept", working.path("link")).unwrap();
    let one = "kept/checkpoint-000000000003";
    for (from, to) in [("kept", "kept"), ("kept", "link"), ("link", "./kept/"), (one, "kept"), (one, "link")] {
        let message = working.refuses(1, &["checkpoint", "convert", from, to]);
        assert!(message.contains("name another folder to write into"), "{message}");
    }
    assert_eq!(fs::read_dir(working.path("kept")).unwrap().count(), 1);
}

#[test]
fn a_checkpoint_that_is_converted_again_keeps_its_number() {
    let working = WorkingFolder::new();
    // As it is written of version 40 of another system.
    write_checkpoint(&working.path("first"), 40);
    for (from, to) in [("first", "second"), ("second", "third")] {
        let ran = working.says(&["checkpoint", "convert", from, to]);
        assert!(ran.stdout.starts_with(&format!("wrote checkpoint 40 to {to};")), "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_folder_for_checkpoints_that_is_a_file_is_refused_before_anything_starts() {
    let workspace = Workspace::new();
    let kept = workspace.folder.path().join("kept");
    fs::write(&kept, "in the way").unwrap();
    for folder in ["kept", "kept/below"] {
        let checkpoints = format!("{{ folder: {folder} }}");
        Quickstart { checkpoints: Some(&checkpoints), ..Quickstart::default() }.write(&workspace);
        let ended = workspace.run(&["job.yaml"]).wait_for(1);
        let message =
            format!("error: spec.flexor.checkpoints.folder: {}", workspace.folder.path().join(folder).display());
        assert!(ended.stderr.contains(&message), "{}", ended.stderr);
        assert!(ended.stderr.contains("is a file; name a folder that can be written"), "{}", ended.stderr);
        assert!(!workspace.folder.path().join("quickstart.csv").exists(), "no pod was started");
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), "in the way");
}
