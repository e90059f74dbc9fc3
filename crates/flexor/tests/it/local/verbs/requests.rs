//! Tests the requests of users: the steps of the tutorials with `flexor` in place of `kubectl`.

use super::laptop::{Laptop, dlrover, redacted, torchelastic};

#[test]
fn a_deleted_worker_comes_back_under_its_name() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let name = "torch-mnist-edljob-worker-1";
    let before = laptop.uid_of_running(name).unwrap();
    assert_eq!(laptop.says(&["delete", "pod", name]), format!("pod \"{name}\" deleted\n"));
    laptop.await_running(3);
    assert_ne!(laptop.uid_of_running(name), Some(before));
    let message = laptop.says(&["events"]);
    assert!(message.contains("PodDeleted") && message.contains(&format!("pod/{name}")), "{message}");
    let why = laptop.says(&["why", "torch-mnist"]);
    assert!(why.contains("worker 1: was filled again once"), "{why}");
}

#[test]
fn a_killed_program_is_started_again_and_the_reason_is_shown() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let name = "torch-mnist-edljob-worker-0";
    let before = laptop.uid_of_running(name).unwrap();
    assert_eq!(laptop.says(&["kill", name]), format!("pod/{name} sent SIGKILL\n"));
    laptop.eventually("another worker 0", || laptop.uid_of_running(name).filter(|uid| *uid != before));
    let events = laptop.json(&["events"]);
    let killed = events["items"].as_array().unwrap().iter().find(|event| event["reason"] == "ProgramKilled").unwrap();
    assert_eq!((&killed["type"], &killed["involvedObject"]["name"]), (&"Warning".into(), &name.into()));
    // It is another pod, as on Kubernetes.
    laptop.await_running(3);
    let row = |words: &[&str]| {
        let table = laptop.says(words);
        let row = table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&["get", "pods"])[3], "0");
    assert_eq!(row(&["get", "pods", "-o", "wide"]).last().unwrap(), "1");
    // A short name is enough as long as it is unique.
    let before = laptop.uid_of_running(name).unwrap();
    assert_eq!(laptop.says(&["kill", "worker-0"]), format!("pod/{name} sent SIGKILL\n"));
    laptop.eventually("yet another worker 0", || laptop.uid_of_running(name).filter(|uid| *uid != before));
    // A master is a pod like any other.
    let master = "pod/elasticjob-torch-mnist-dlrover-master";
    assert_eq!(laptop.says(&["kill", master, "-s", "9"]), format!("{master} sent SIGKILL\n"));
    laptop.await_running(3);
    // As kill(1) takes signals.
    assert_eq!(laptop.says(&["kill", name, "-9"]), format!("pod/{name} sent SIGKILL\n"));
    laptop.await_running(3);
    assert_eq!(laptop.says(&["kill", "-CONT", name]), format!("pod/{name} sent SIGCONT\n"));
}

#[test]
fn jobs_are_all_kinds_of_jobs() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    let names = laptop.says(&["get", "jobs", "-A", "-o", "name"]);
    assert_eq!(names, "elasticjob.elastic.iml.github.io/torch-mnist\nelasticjob.elastic.pytorch.org/imagenet\n");
    assert!(laptop.says(&["get", "job", "torch-mnist"]).contains("torch-mnist"));
    assert!(laptop.says(&["describe", "job/torch-mnist"]).contains("torch-mnist"));
    assert!(laptop.says(&["delete", "job", "torch-mnist"]).contains("deleted"));
}

#[test]
fn a_file_is_applied_with_and_without_its_option() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    std::fs::write(laptop.folder.path().join("more.yaml"), torchelastic("imagenet")).unwrap();
    let created = "elasticjob.elastic.pytorch.org/imagenet created\n";
    assert_eq!(laptop.says(&["apply", "more.yaml"]), created);
    let unchanged = created.replace("created", "unchanged");
    assert_eq!(laptop.says(&["apply", "-f", "more.yaml"]), unchanged);
}

#[test]
fn a_torchelastic_job_is_scaled_by_its_description() {
    let laptop = Laptop::with(&[torchelastic("imagenet")]);
    let namespace = ["-n", "elastic-job"];
    let scale = |replicas: &str| {
        laptop.says(&[&["scale", "elasticjob", "imagenet", "--replicas", replicas], &namespace[..]].concat())
    };
    assert_eq!(scale("1"), "elasticjob.elastic.pytorch.org/imagenet scaled\n");
    laptop.await_running(2);
    let names = laptop.says(&[&["get", "pods", "-o", "name"], &namespace[..]].concat());
    assert_eq!(names, "pod/imagenet-master\npod/imagenet-worker-0\n");
    let table = laptop.shows(&[&["get", "elasticjob", "imagenet"], &namespace[..]].concat());
    insta::assert_snapshot!(table, @r"
    NAME       DESIRED   MIN   MAX   PHASE     AGE
    imagenet   1         1     3     Running   0s
    ");
    // The manifest has two replicas.
    let applied = laptop.flexor(&["-n", "elastic-job", "apply", "-f", "jobs.yaml"]);
    assert_eq!((applied.code, &*applied.stdout), (0, "elasticjob.elastic.pytorch.org/imagenet configured\n"));
    let message = "note: sizes of roles and the suspension of imagenet change at once; other changes apply to pods created from \
                now on, and `flexor delete pod NAME` replaces a pod\n";
    assert_eq!(applied.stderr, message);
    laptop.await_running(3);
    let again = laptop.flexor(&["apply", "-f", "jobs.yaml"]);
    assert_eq!((&*again.stdout, &*again.stderr), ("elasticjob.elastic.pytorch.org/imagenet unchanged\n", ""));
    scale("3");
    laptop.await_running(4);
}

#[test]
fn every_verb_takes_the_short_name_of_a_pod() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let whole = "torch-mnist-edljob-worker-1";
    for words in [&["get", "pod", "worker-1", "-o", "name"][..], &["get", "pod/worker-1", "-o", "name"]] {
        assert_eq!(laptop.says(words), format!("pod/{whole}\n"));
    }
    let described = laptop.says(&["describe", "pod", "worker-1"]);
    assert!(described.lines().next().is_some_and(|line| line.ends_with(whole)), "{described}");
    assert_eq!(laptop.says(&["delete", "pod", "worker-1"]), format!("pod \"{whole}\" deleted\n"));
    let happened = laptop.says(&["events", "worker-1"]);
    assert!(happened.lines().skip(1).all(|line| line.contains(whole)), "{happened}");
    assert!(happened.lines().count() > 1, "{happened}");
    assert_eq!(laptop.flexor(&["describe", "pod", "worker-9"]).code, 1);
}

#[test]
fn a_dlrover_job_is_scaled_by_plans() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let message = laptop.says(&["scale", "torch-mnist", "--worker", "1"]);
    let (job, plan) = ("elasticjob.elastic.iml.github.io", "scaleplan.elastic.iml.github.io");
    assert_eq!(message, format!("{job}/torch-mnist scaled by {plan}/torch-mnist-scale-0\n"));
    laptop.await_running(2);
    laptop.says(&["scale", "torch-mnist", "--replicas", "2", "--role", "worker"]);
    laptop.await_running(3);
    let done = |name: &str| {
        let plan = laptop.json(&["get", "scaleplan", name]);
        (plan["status"]["phase"] == "Succeeded").then_some(())
    };
    laptop.eventually("both plans done", || done("torch-mnist-scale-0").and(done("torch-mnist-scale-1")));
    insta::assert_snapshot!(laptop.shows(&["get", "scaleplans"]), @r"
    NAME                  OWNER         PHASE       AGE
    torch-mnist-scale-0   torch-mnist   Succeeded   0s
    torch-mnist-scale-1   torch-mnist   Succeeded   0s
    ");
    let wide = laptop.says(&["get", "scaleplan", "torch-mnist-scale-0", "-o", "wide"]);
    assert!(wide.starts_with("NAME ") && wide.lines().next().unwrap().ends_with("AGE   REASON     MESSAGE"), "{wide}");
    assert!(wide.contains("PlanDone   torch-mnist-scale-0: all pods are as it says"), "{wide}");
    let why = laptop.says(&["why", "torch-mnist"]);
    assert!(why.contains("scaleplan/torch-mnist-scale-1"), "{why}");
    let gone = laptop.says(&["delete", "dsp", "torch-mnist-scale-0"]);
    assert_eq!(gone, format!("{plan} \"torch-mnist-scale-0\" deleted\n"));
    assert_eq!(laptop.says(&["get", "dsp", "-o", "name"]), format!("{plan}/torch-mnist-scale-1\n"));
    // The manifest has two replicas, and its user asks for more.
    laptop.says(&["scale", "torch-mnist", "--worker", "4"]);
    laptop.await_running(5);
}

#[test]
fn the_output_of_get_can_be_applied_and_changes_nothing() {
    let laptop = Laptop::with(&[dlrover("torch-mnist"), torchelastic("imagenet")]);
    laptop.says(&["scale", "torch-mnist", "--worker", "1"]);
    for (format, words) in [("yaml", "elasticjobs,scaleplans"), ("json", "elasticjobs"), ("yaml", "scaleplans")] {
        let got = laptop.says(&["get", words, "-A", "-o", format]);
        std::fs::write(laptop.folder.path().join("got"), got).unwrap();
        let ran = laptop.flexor(&["apply", "-f", "got"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
        assert!(ran.stdout.lines().count() > 0, "{words}");
        assert!(ran.stdout.lines().all(|line| line.ends_with(" unchanged")), "{words}: {}", ran.stdout);
    }
    let got = laptop.says(&["get", "elasticjob", "torch-mnist", "-o", "yaml"]);
    let applied = crate::program::feed(laptop.command(&["apply", "-f", "-"]), got.as_bytes());
    assert_eq!(applied.stdout, "elasticjob.elastic.iml.github.io/torch-mnist unchanged\n");
}

#[test]
fn a_run_whose_last_job_is_deleted_has_not_succeeded() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    laptop.says(&["delete", "elasticjob", "torch-mnist"]);
    let ended = laptop.run.wait_for(1);
    assert!(ended.stderr.contains("default/torch-mnist was deleted before it was over"), "{}", ended.stderr);
}

#[test]
fn delete_removes_the_objects_of_a_manifest() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n";
    std::fs::write(laptop.folder.path().join("more.yaml"), format!("{}---\n{object}", dlrover("second"))).unwrap();
    laptop.says(&["apply", "-f", "more.yaml", "-n", "other"]);
    laptop.await_running(6);
    let gone = laptop.says(&["delete", "-f", "more.yaml", "-n", "other"]);
    assert_eq!(gone, "elasticjob.elastic.iml.github.io \"second\" deleted\nconfigmap \"settings\" deleted\n");
    laptop.await_running(3);
    let again = laptop.flexor(&["delete", "-n", "other", "-f", "more.yaml"]);
    let message = "error: there is no elasticjob second in namespace other\n\
                error: there is no configmap settings in namespace other\n";
    assert_eq!((again.code, again.stdout.as_str(), again.stderr.as_str()), (1, "", message));
    let ignored = laptop.flexor(&["delete", "-n", "other", "-f", "more.yaml", "--ignore-not-found"]);
    assert_eq!((ignored.code, ignored.stderr.as_str()), (0, ""));
    // Its events are still known.
    let message = laptop.says(&["events", "second", "-n", "other"]);
    assert!(message.contains("JobDeleted   job/second"), "{message}");
}

#[test]
fn jobs_are_added_and_deleted_beside_others() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    std::fs::write(laptop.folder.path().join("more.yaml"), dlrover("second")).unwrap();
    let message = laptop.says(&["apply", "-f", "more.yaml", "-n", "other"]);
    assert_eq!(message, "elasticjob.elastic.iml.github.io/second created\n");
    laptop.await_running(6);
    let gone = laptop.says(&["delete", "elasticjob", "second", "-n", "other"]);
    assert_eq!(gone, "elasticjob.elastic.iml.github.io \"second\" deleted\n");
    // The command returned because the job and all its pods are gone.
    let rest = laptop.flexor(&["get", "pods", "-n", "other"]);
    assert_eq!((rest.code, rest.stdout.as_str()), (0, ""));
    let hint = "No resources found in other namespace; there are some in default: add -n default\n";
    assert_eq!(redacted(&rest.stderr), hint);
    laptop.await_running(3);
    laptop.folder.let_go();
    laptop.run.wait_for(0);
}
