//! Tests the environment of a launched program.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::folder::Folder;
use super::launcher::{Launcher, launch};

type Environment = BTreeMap<String, String>;

/// The environment of each process of a launch, by rank.
fn environments(folder: &Folder, options: &[&str], change: impl FnOnce(&mut Command)) -> Vec<Environment> {
    let mut command = launch(folder, options.iter().chain(&["sh", "-c", "env > environment.$RANK"]));
    change(&mut command);
    Launcher::start(&mut command).wait_for(0);
    let read = |rank| Some(folder.read(&format!("environment.{rank}"))).filter(|text| !text.is_empty());
    (0..).map_while(read).map(|text| parse(&text)).collect()
}

fn parse(text: &str) -> Environment {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn every_process_finds_torchruns_variables() {
    let folder = Folder::new();
    let options = ["--standalone", "--nproc-per-node=2", "--max-restarts=5", "--role=trainer"];
    let found = environments(&folder, &options, |command| {
        command.env("MINE", "is inherited");
    });
    assert_eq!(found.len(), 2);
    for (rank, environment) in found.iter().enumerate() {
        let rank = rank.to_string();
        let expected = [
            ("RANK", rank.as_str()),
            ("LOCAL_RANK", &rank),
            ("ROLE_RANK", &rank),
            ("GROUP_RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("ROLE_WORLD_SIZE", "2"),
            ("GROUP_WORLD_SIZE", "1"),
            ("ROLE_NAME", "trainer"),
            ("TORCHELASTIC_RESTART_COUNT", "0"),
            ("TORCHELASTIC_MAX_RESTARTS", "5"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
            ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
            ("OMP_NUM_THREADS", "1"),
            ("MINE", "is inherited"),
        ];
        for (name, value) in expected {
            assert_eq!(environment.get(name).map(String::as_str), Some(value), "{name} of rank {rank}");
        }
        environment["MASTER_PORT"].parse::<u16>().unwrap();
    }
    let of_both = |name: &str| found.iter().map(|environment| environment[name].clone()).collect::<BTreeSet<_>>();
    for same in ["MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "FLEXOR_MASTER", "FLEXOR_INCARNATION"] {
        assert_eq!(of_both(same).len(), 1, "{same} is the same for both");
    }
    for own in ["TORCHELASTIC_ERROR_FILE", "FLEXOR_WORKER"] {
        assert_eq!(of_both(own).len(), 2, "{own} is each one's own");
    }
}

#[test]
fn variables_set_by_the_user_stay() {
    let folder = Folder::new();
    let found = environments(&folder, &["--standalone", "--nproc-per-node=2"], |command| {
        command.env("OMP_NUM_THREADS", "7").env("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
    });
    for environment in found {
        assert_eq!(environment["OMP_NUM_THREADS"], "7");
        assert_eq!(environment["TORCH_NCCL_ASYNC_ERROR_HANDLING"], "0");
    }
}

#[test]
fn a_process_alone_on_its_node_may_use_every_core() {
    let folder = Folder::new();
    let found = environments(&folder, &["--standalone"], |_| {});
    assert_eq!((found.len(), found[0].get("OMP_NUM_THREADS")), (1, None));
}

#[test]
fn with_virtual_local_ranks_every_process_sees_one_device() {
    for (visible, seen) in [(None, ["0", "1"]), (Some("4,6"), ["4", "6"])] {
        let folder = Folder::new();
        let found = environments(&folder, &["--standalone", "--nproc-per-node=2", "--virtual-local-rank"], |command| {
            match visible {
                Some(visible) => command.env("CUDA_VISIBLE_DEVICES", visible),
                None => command.env_remove("CUDA_VISIBLE_DEVICES"),
            };
        });
        assert_eq!(found.len(), 2);
        for (environment, device) in found.iter().zip(seen) {
            assert_eq!(
                (environment["LOCAL_RANK"].as_str(), environment["CUDA_VISIBLE_DEVICES"].as_str()),
                ("0", device)
            );
        }
    }
}

#[test]
fn torchruns_variables_are_options_and_the_command_line_wins() {
    let folder = Folder::new();
    let found = environments(&folder, &["--role=said"], |command| {
        command.env("PET_STANDALONE", "1").env("PET_NPROC_PER_NODE", "3").env("PET_ROLE", "set");
    });
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|environment| environment["ROLE_NAME"] == "said"));
}

#[test]
fn a_python_script_or_module_is_run_with_the_python_that_is_named() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("train.py"), "import sys; print('python says', sys.argv[1:])").unwrap();
    let ended = Launcher::start(&mut launch(&folder, ["--standalone", "train.py", "--lr=0.1", "--help"])).wait_for(0);
    assert_eq!(ended.stdout, "python says ['--lr=0.1', '--help']\n");
    let module = Launcher::start(&mut launch(&folder, ["--standalone", "-m", "train", "--lr=0.1"])).wait_for(0);
    assert_eq!(module.stdout, "python says ['--lr=0.1']\n");
    let named = Launcher::start(launch(&folder, ["--standalone", "train.py"]).env("PYTHON_EXEC", "echo")).wait_for(0);
    assert_eq!(named.stdout, "-u train.py\n");
}

#[test]
fn a_long_path_for_temporary_files_is_accepted() {
    let folder = Folder::new();
    let long = folder.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let script = "[ -S $FLEXOR_WORLD_SOCKET ] && echo socket $(stat -c %a $(dirname $FLEXOR_WORLD_SOCKET))";
    let mut command = launch(&folder, ["--standalone", "sh", "-c", script]);
    let ended = Launcher::start(command.env("TMPDIR", &long)).wait_for(0);
    assert_eq!(ended.stdout, "socket 700\n", "{}", ended.stderr);
}
