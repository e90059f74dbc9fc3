//! Tests `paddlecloud` and `paddlectl` as far as no cluster is needed: what would be sent, and what is refused before
//! anything is sent.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::program::{ProgramOutput, bin, root, run, run_with_input};

/// The submission of the experiment's page, in the folder of its demos.
const PAGE: [&str; 18] = [
    "-jobname",
    "mnist1",
    "-cpu",
    "8",
    "-gpu",
    "0",
    "-memory",
    "8Gi",
    "-parallelism",
    "40",
    "-pscpu",
    "4",
    "-pservers",
    "8",
    "-psmemory",
    "1Gi",
    "-entry",
    "python ./train.py train",
];
const PACKAGE: &str = "tutorials/edl/demo/recognize_digits";

/// Runs a submission that no cluster could take: there is none.
fn submit(words: &[&str]) -> ProgramOutput {
    client("paddlecloud", &[&["submit"], words].concat())
}

/// Calls the program by a symbolic link with a name of its own.
fn client(name: &str, words: &[&str]) -> ProgramOutput {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(name);
    symlink(bin(), &link).unwrap();
    let mut command = Command::new(link);
    command.args(words).current_dir(root()).env("KUBECONFIG", folder.path().join("none"));
    command.env_remove("KUBERNETES_SERVICE_HOST").output().unwrap().into()
}

#[test]
fn the_pages_submission_is_printed_as_manifests_that_are_accepted() {
    let ran = submit(&[&PAGE[..], &["-dry-run", PACKAGE]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // The program itself may change without the snapshot.
    let program = fs::read_to_string(root().join(PACKAGE).join("train.py")).unwrap();
    let config_map = ran.stdout.split("---\n").next().unwrap();
    let config_map: serde_json::Value = serde_saphyr::from_str(config_map).unwrap();
    assert_eq!(config_map["data"]["000-train.py"], program.as_str());
    assert_eq!(config_map["metadata"]["labels"]["paddle-job-package"], "mnist1");
    let (_, job) = ran.stdout.split_once("---\n").unwrap();
    insta::assert_snapshot!(job);
    let judged = run_with_input(&["validate", "--strict", "-"], ran.stdout.as_bytes());
    assert_eq!(judged.code, 0, "{}{}", judged.stdout, judged.stderr);
    assert!(
        judged.stdout.contains("TrainingJob mnist1 (edl): parameter-server job, sized by the cluster planner"),
        "{}",
        judged.stdout
    );
}

#[test]
fn an_elastic_job_has_bounds_and_cards_and_a_folder_of_the_image() {
    let flags =
        ["-jobname=mnist2", "--image=registry.example/mnist:1", "-gpu=2", "-faulttolerant", "-entry", "./train"];
    let bounds = ["-min_instance", "50", "-max_instance=200", "-pservers", "2", "-registry", "key", "-passes", "3"];
    let ran = submit(&[&flags[..], &bounds, &["--dry-run", "/opt/mnist"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stderr, "note: there is no /opt/mnist here; it has to be in the image\n");
    insta::assert_snapshot!(ran.stdout);
}

#[test]
fn flexor_has_the_same_commands_without_a_link() {
    let by_link = submit(&[&PAGE[..], &["-dry-run", PACKAGE]].concat());
    let plain = run(&[&["paddlecloud", "submit"], &PAGE[..], &["--dry-run", PACKAGE]].concat());
    assert_eq!((plain.code, plain.stdout), (0, by_link.stdout));
    let ctl = client("paddlectl", &["submit", "-entry", "./train", "-image", "m:1", "-dry-run", PACKAGE]);
    assert!(ctl.stdout.contains("name: paddle-cluster-job"), "{}{}", ctl.stdout, ctl.stderr);
}

/// A job's name stands where the package belongs, in the page's own text.
#[test]
fn the_pages_slip_is_answered_in_one_line() {
    let ran = client("paddlectl", &["submit", "mnist1"]);
    let answer = "error: there is no package mnist1; write paddlectl submit -jobname mnist1 -entry \"python ./train.py \
                  train\" FOLDER\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (2, "", answer));
}

#[test]
fn bad_command_lines_are_refused_in_a_sentence() {
    let entry = ["-entry", "./train"];
    for (words, message) in [
        (&["-jobname", "mnist_1"][..], "a job's name may not contain `_`; write - instead"),
        (&["-jobname", "mnist.1"], "a job's name may not contain `.`; write - instead"),
        (&["-jobname", "Mnist"], "metadata.name: "),
        (&["-jobname", "1mnist"], "metadata.name: "),
        (&["-jobnam", "mnist1"], "unexpected argument '--jobnam'"),
        (&["-cpu", "eight"], "invalid value 'eight' for '--cpu <CPUS>'"),
        (&["-cpu", "-8"], "invalid value '-8' for '--cpu <CPUS>'"),
        (&["-memory", "0"], "the amount must be greater than 0"),
        (&["-parallelism", "0"], "0 is not in 1..=100000"),
        (&["-parallelism"], "a value is required for '--parallelism <N>'"),
        (&["-min_instance", "2", "-max_instance", "6"], "needs -faulttolerant"),
        (&["-faulttolerant", "-min_instance", "2"], "write both -min_instance and -max_instance"),
        (&["-faulttolerant", "-min_instance", "6", "-max_instance", "2"], "-min_instance 6 is above -max_instance 2"),
        (&["-faulttolerant=perhaps"], "invalid value 'perhaps' for '--faulttolerant"),
    ] {
        let is_last = words == ["-parallelism"];
        let ran = submit(&if is_last { [&entry, words].concat() } else { [&entry, words, &[PACKAGE]].concat() });
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(message), "{words:?}: {}", ran.stderr);
    }
    let ran = submit(&[PACKAGE]);
    assert!(ran.code == 2 && ran.stderr.starts_with("error: -entry is missing"), "{}", ran.stderr);
}

#[test]
fn a_package_that_cannot_be_sent_is_refused_before_the_cluster_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &str| {
        let ran = submit(&["-jobname", "mnist1", "-entry", "./train", path]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()), (1, "", 1), "{}", ran.stderr);
        ran.stderr
    };
    let path = folder.path().to_str().unwrap();
    assert!(refused(path).ends_with("has no files\n"));
    assert!(refused("./nowhere").contains("there is no package ./nowhere; name the folder"));
    symlink("nowhere", folder.path().join("link")).unwrap();
    assert!(refused(path).contains("link cannot be read"));
    fs::remove_file(folder.path().join("link")).unwrap();
    fs::write(folder.path().join("data"), vec![0; (1 << 20) + 1]).unwrap();
    let message = refused(path);
    assert!(
        message.contains("a ConfigMap holds 1 MiB") && message.contains("-image IMAGE /PATH/IN/IMAGE"),
        "{message}"
    );
}

#[test]
fn commands_without_a_cluster_say_how_to_name_one() {
    let watch = ["experiment", "watch", "case1", "mnist1,mnist2"];
    for words in [&["paddlecloud", "get"][..], &["paddlecloud", "logs", "j"], &["paddlecloud", "kill", "j"], &watch] {
        let ran = client("flexor", words);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{words:?}: {}", ran.stderr);
        let message = "; set KUBECONFIG or give --kubeconfig\n";
        assert!(
            ran.stderr.starts_with("error: no cluster is configured: ") && ran.stderr.ends_with(message),
            "{}",
            ran.stderr
        );
    }
    let ran = client("paddlecloud", &["get", "workers"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "error: name the job, as in get workers mnist1\n"));
}

/// The dialect sets the variable where a job has `passes`.
#[test]
fn a_worker_takes_its_epochs_from_the_environment() {
    let worker = |words: &[&str]| -> ProgramOutput {
        let usual = ["worker", "--model=mlp", "--data=none", "--name=w", "--master=127.0.0.1:1"];
        let mut command = Command::new(bin());
        command.args(usual).args(words).env(flexor_model::env::EPOCHS.name, "none").output().unwrap().into()
    };
    let ran = worker(&[]);
    assert_eq!(ran.code, 78, "{}", ran.stderr);
    assert!(ran.stderr.contains("invalid value 'none' for '--epochs <N>'"), "{}", ran.stderr);
    let ran = worker(&["--epochs=2"]);
    assert!(!ran.stderr.contains("--epochs"), "the option wins: {}", ran.stderr);
}
